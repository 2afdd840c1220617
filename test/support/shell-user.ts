/** A user with a home folder, who uses remote servers from the shell. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Credentials } from '../../src/cli/remote/credentials.ts'
import { type RunOptions, run, runOnTerminal } from './processes/run.ts'
import { runHere } from './processes/run-here.ts'

/** Creates the user and the home, which is removed with the test. */
export async function createShellUser(env: Record<string, string> = {}) {
  const home = await mkdtemp(join(tmpdir(), 'dms-home-'))
  onTestFinished(() => rm(home, { recursive: true, force: true }))
  const all = { HOME: home, ...env }
  const credentialsPath = join(home, '.local/state/dms/credentials.json')
  const credentials = async (): Promise<Credentials> => JSON.parse(await readFile(credentialsPath, 'utf8'))
  return {
    home,
    env: all,
    /** runs it in this process */
    dms: (args: readonly string[], options: RunOptions = {}) => runHere(args, { ...options, env: { ...all, ...options.env } }),
    dmsProcess: (args: readonly string[], options: RunOptions = {}) => run(args, { ...options, env: { ...all, ...options.env } }),
    dmsOnTerminal: (args: readonly string[], options: RunOptions = {}) =>
      runOnTerminal(args, { ...options, env: { ...all, ...options.env } }),
    contextsPath: join(home, '.config/dms/contexts.toml'),
    credentialsPath,
    credentials,
    /** Changes the stored token of a context. */
    editCredential: async (name: string, change: Partial<Credentials[string]>) => {
      const now = await credentials()
      await writeFile(credentialsPath, JSON.stringify({ ...now, [name]: { ...now[name], ...change } }))
    },
    /** Writes a file below the home. */
    file: async (name: string, text: string, mode = 0o600): Promise<string> => {
      const path = join(home, name)
      await writeFile(path, text, { mode })
      return path
    },
  }
}
