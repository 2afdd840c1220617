/** A `dms serve` that can be killed and started again on the same data folder. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { bareEnvironment, executable } from './run.ts'

export const password = 'a password for the first admin'

export interface Killable {
  readonly url: string
  /** Kills it like a power cut would; resolves when it is gone. */
  kill(): Promise<void>
  /** Stops it with SIGTERM. Returns the exit code. */
  stop(): Promise<number | null>
}

/** Starts it on any free port; throws with its output if it does not start. */
export async function startKillable(dataDir: string, env: Record<string, string> = {}, flags: readonly string[] = []): Promise<Killable> {
  const child = spawn(process.execPath, [executable, 'serve', '--data-dir', dataDir, '--port', '0', ...flags], {
    env: bareEnvironment({
      DMS_ADMIN_PASSWORD: password,
      DMS_API_CALLS_PER_MINUTE: '0',
      DMS_REGISTRATIONS_PER_HOUR: '0',
      DMS_STORAGE_MIN_FREE: '0',
      DMS_LOG_LEVEL: 'error',
      DMS_LOG_FORMAT: 'json',
      ...env,
    }),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const { promise: url, resolve, reject } = Promise.withResolvers<string>()
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
    const found = /listening on (\S+)/.exec(said)?.[1]
    if (found) resolve(found)
  })
  void exit.then(() => reject(new Error(`dms serve ended at once: ${said}`)))
  return {
    url: await url,
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
    async stop() {
      child.kill('SIGTERM')
      return (await exit)[0]
    },
  }
}

/** Returns the pid of the embedded PostgreSQL of a data folder. */
export async function postgresOf(dataDir: string): Promise<number> {
  const files = await readdir(join(dataDir, 'postgres'), { recursive: true })
  const file = files.find((name) => name.endsWith('postmaster.pid'))
  return Number.parseInt(await readFile(join(dataDir, 'postgres', file ?? 'postmaster.pid'), 'utf8'), 10)
}

/** Returns processes with a working directory below a folder. */
export async function processesIn(folder: string): Promise<number[]> {
  const found: number[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    const place = await readlink(`/proc/${pid}/cwd`).catch(() => '')
    if (place.startsWith(folder)) found.push(Number(pid))
  }
  return found
}
