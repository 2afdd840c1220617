/** A real `dms serve` as users start it: a child process with its own data folder and embedded database. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Client } from '../../../src/client/client.ts'
import { remoteClient } from '../../../src/client/remote.ts'
import { bareEnvironment, executable } from '../processes/run.ts'

const password = 'a password for the first admin'
const startTimeout = 180_000
const stopTimeout = 60_000

export interface Served {
  readonly url: string
  readonly pid: number
  readonly dataDir: string
  /** folder of temporary files of the server and its children only */
  readonly tempDir: string
  readonly token: string
  /** of the first admin, `admin` */
  readonly password: string
  /** client of the first admin, over HTTP */
  readonly client: Client
  /** errors in its log so far, shortened */
  readonly errors: readonly string[]
  /** Stops it with SIGTERM. Returns the exit code, or the signal that was needed. Its folders stay until `remove`. */
  stop(): Promise<number | NodeJS.Signals | null>
  remove(): Promise<void>
}

export interface ServedOptions {
  /** variables of config.example.toml */
  env?: Record<string, string>
  /** folder for the data folder; default: that of temporary files */
  below?: string
  /** the `dms` to run; default: this checkout's, with the Node of this test */
  program?: string
}

/** Starts it and signs in; throws with its output if it does not start. */
export async function startServed({ env = {}, below = tmpdir(), program }: ServedOptions = {}): Promise<Served> {
  const folder = await mkdtemp(join(below, 'dms-served-'))
  // Under root the database runs as another user, who must be able to enter the folder.
  await chmod(folder, 0o711)
  const [dataDir, tempDir] = [join(folder, 'data'), join(folder, 'temp')]
  await mkdir(tempDir)
  const words = ['serve', '--data-dir', dataDir, '--port', '0']
  const child = spawn(program ?? process.execPath, program ? words : [executable, ...words], {
    env: bareEnvironment({
      TMPDIR: tempDir,
      DMS_ADMIN_PASSWORD: password,
      DMS_API_CALLS_PER_MINUTE: '0',
      DMS_REGISTRATIONS_PER_HOUR: '0',
      DMS_LOG_LEVEL: 'warn',
      DMS_LOG_FORMAT: 'json',
      ...env,
    }),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let stopped: Promise<number | NodeJS.Signals | null> | undefined
  const stop = async () => {
    child.kill('SIGTERM')
    const impatience = setTimeout(() => child.kill('SIGKILL'), stopTimeout)
    const [code, signal] = await exit
    clearTimeout(impatience)
    return code ?? signal
  }
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const errors: string[] = []
    const url = await addressOf(child.stderr, exit, errors)
    const token = await signIn(url)
    const client = remoteClient({ base: url, token: async () => token })
    return {
      url,
      pid: child.pid ?? 0,
      dataDir,
      tempDir,
      token,
      password,
      client,
      errors,
      stop: () => {
        stopped ??= client.close().then(stop)
        return stopped
      },
      remove,
    }
  } catch (error) {
    await stop()
    await remove()
    throw error
  }
}

/** Reads the log of the server: its URL, and then its errors. */
async function addressOf(stderr: NodeJS.ReadableStream, exit: Promise<unknown>, errors: string[]): Promise<string> {
  const said: string[] = []
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const refuse = (why: string) => reject(new Error(`dms serve ${why}: ${said.join(' | ')}`))
  const clock = setTimeout(() => refuse('did not listen in time'), startTimeout)
  void exit.then(() => refuse('ended at once'))
  createInterface(stderr).on('line', (line) => {
    said.push(line.slice(0, 500))
    if (said.length > 20) said.shift()
    if (line.startsWith('{"level":"error"')) errors.push(line.slice(0, 500))
    const url = /^listening on (\S+)/.exec(line)?.[1]
    if (url) resolve(url)
  })
  return promise.finally(() => clearTimeout(clock))
}

async function signIn(url: string): Promise<string> {
  const client = remoteClient({ base: url, token: async () => null })
  try {
    return (await client.call<{ token: string }>('POST', '/api/auth/login', { username: 'admin', password })).token
  } finally {
    await client.close()
  }
}
