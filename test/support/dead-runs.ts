/** Folders of test runs: those of killed runs are removed by the next one. */
import { readdirSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive } from '../../src/processes.ts'
import { commandOf, until } from './processes/processes.ts'

const stopTimeoutMs = 20_000

/** Creates the folder of this run. Its name has the pid of this process. */
export async function createRunFolder(parent: string): Promise<string> {
  const folder = await mkdtemp(join(parent, `dms-test-${process.pid}-`))
  // Under root the database runs as another user, who must be able to enter the folder.
  await chmod(folder, 0o711)
  return folder
}

/** Stops databases of runs that were killed, and removes their folders. Returns the folders. */
export async function removeDeadRuns(parent: string): Promise<string[]> {
  const folders = readdirSync(parent)
    .filter((name) => isDead(Number(/^dms-test-(\d+)-/.exec(name)?.[1])))
    .map((name) => join(parent, name))
  for (const folder of folders) {
    for (const pid of databasesIn(folder)) {
      process.kill(pid, 'SIGQUIT')
      await until(() => !isAlive(pid), stopTimeoutMs)
    }
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  return folders
}

const isDead = (pid: number): boolean => !Number.isNaN(pid) && !isAlive(pid)

/** Returns the pids of PostgreSQL servers whose data is in the folder. */
const databasesIn = (folder: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandOf(Number(name)).includes(` -D ${folder}/`))
    .map(Number)
