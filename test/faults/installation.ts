/** A data folder with its PostgreSQL, on which servers and workers are started, killed and restarted. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { processTree, signal } from '../support/processes/process-tree.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'

export const password = 'a password for the first admin'
/** timeouts in milliseconds, for a busy machine */
const startTimeout = 180_000
const stopTimeout = 60_000

export interface StartOptions {
  /** variables of config.example.toml, or of the process */
  env?: Record<string, string>
  /** used instead of `serve` */
  command?: readonly string[]
  /** a program with arguments that executes dms */
  before?: readonly string[]
  /** log text of a running process */
  ready?: RegExp
}

export interface RunningProcess {
  readonly pid: number
  /** seconds from the start until it was ready */
  readonly startSeconds: number
  /** standard error, line by line */
  readonly output: readonly string[]
  /** resolves with the exit code or signal */
  readonly ended: Promise<number | NodeJS.Signals | null>
  isRunning(): boolean
  /** Kills the process with SIGKILL. */
  kill(): Promise<void>
  /** Stops it with SIGTERM. Returns the exit code, or the signal that was needed. */
  stop(): Promise<number | NodeJS.Signals | null>
}

export type Installation = Awaited<ReturnType<typeof openInstallation>>

/** Creates the folder without starting anything. */
export async function openInstallation() {
  const folder = await mkdtemp(join(tmpdir(), 'dms-faults-'))
  // Under root the database runs as another user, who must be able to enter the folder.
  await chmod(folder, 0o711)
  const dataDir = join(folder, 'data')
  const tempDir = join(folder, 'temp')
  await mkdir(tempDir)
  const port = await freePort()
  const children = new Set<ChildProcess>()
  const endings: (() => void)[] = []
  let isRemoved = false

  const start = async ({
    env = {},
    command = ['serve', '--port', String(port)],
    before = [],
    ready = /^listening on/,
  }: StartOptions = {}) => {
    if (isRemoved) throw new Error('the installation is being removed')
    const [name = '', ...rest] = command
    const [program = '', ...words] = [...before, process.execPath, executable, name, '--data-dir', dataDir, ...rest]
    const startedAt = performance.now()
    const child = spawn(program, words, {
      env: bareEnvironment({
        TMPDIR: tempDir,
        DMS_ADMIN_PASSWORD: password,
        DMS_API_CALLS_PER_MINUTE: '0',
        DMS_SHARED_LINKS_PER_HOUR: '1000000',
        DMS_SHARED_DOWNLOAD_PER_MINUTE: '1000000',
        DMS_STORAGE_MIN_FREE: '0',
        DMS_LOG_LEVEL: 'info',
        DMS_LOG_FORMAT: 'json',
        DMS_LOG_ACCESS: 'false',
        ...env,
      }),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    children.add(child)
    child.once('exit', () => children.delete(child))
    return waitUntilReady(child, ready, startedAt)
  }

  /** Starts a worker beside a server without one. */
  const startWorker = (options: Pick<StartOptions, 'env'> = {}) => start({ ...options, command: ['worker'], ready: /worker/i })

  /** Reads the file with the pid of PostgreSQL and the folder of its socket. */
  const lockLines = async () => (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')
  const postmaster = async (): Promise<number> => Number((await lockLines())[0])
  const connection = async () => ({ host: (await lockLines())[4], port: 5432, user: 'dms', database: 'dms' })

  /** Runs a statement as owner of the database on a separate connection. Retries for `timeoutMs` without an answer. */
  const query = async <Row = Record<string, unknown>>(text: string, timeoutMs = 60_000): Promise<Row[]> => {
    for (const end = performance.now() + timeoutMs; ; await sleep(200)) {
      const client = await connection()
        .then((settings) => new pg.Client({ ...settings, connectionTimeoutMillis: 5000 }))
        .catch(() => null)
      client?.on('error', () => {})
      try {
        await client?.connect()
        if (client) return (await client.query(text)).rows as Row[]
      } catch (error) {
        const { code = '' } = error as { code?: string }
        if (performance.now() > end || /^(22|23|42)/.test(code)) throw error
      } finally {
        await client?.end().catch(() => {})
      }
      if (performance.now() > end) throw new Error('PostgreSQL does not answer')
    }
  }

  return {
    folder,
    dataDir,
    tempDir,
    port,
    url: `http://127.0.0.1:${port}`,
    start,
    startWorker,
    postmaster,
    connection,
    query,
    /** Registers a function to call before the folder is removed, even if the run is aborted. */
    atEnd: (ending: () => void) => void endings.push(ending),
    async remove() {
      isRemoved = true
      for (const child of children) {
        const gone = once(child, 'exit')
        child.kill('SIGKILL')
        await gone
      }
      const pid = await postmaster().catch(() => 0)
      const isRunning = () => pid > 0 && processTree(pid)[0]?.command.includes(dataDir)
      if (isRunning()) {
        for (const { pid: each } of processTree(pid)) signal(each, 'SIGCONT')
        signal(pid, 'SIGINT')
        for (let round = 0; isRunning() && round < 500; round++) await sleep(20)
      }
      for (const ending of endings.splice(0).reverse()) ending()
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

async function waitUntilReady(child: ChildProcess, ready: RegExp, startedAt: number): Promise<RunningProcess> {
  const output: string[] = []
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals | null)
  const up = Promise.withResolvers<void>()
  createInterface(child.stderr as NodeJS.ReadableStream).on('line', (line) => {
    output.push(line.slice(0, 1000))
    if (ready.test(line)) up.resolve()
  })
  const refuse = (why: string) => up.reject(new Error(`${why}: ${output.slice(-5).join(' | ')}`))
  const clock = setTimeout(() => refuse('did not come up in time'), startTimeout)
  void ended.then((code) => refuse(`ended with ${code} before it was ready`))
  try {
    await up.promise
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  } finally {
    clearTimeout(clock)
  }
  const isRunning = () => child.exitCode === null && child.signalCode === null
  return {
    pid: child.pid ?? 0,
    startSeconds: (performance.now() - startedAt) / 1000,
    output: output,
    ended,
    isRunning: isRunning,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    async stop() {
      child.kill('SIGTERM')
      const killTimer = setTimeout(() => child.kill('SIGKILL'), stopTimeout)
      return ended.finally(() => clearTimeout(killTimer))
    },
  }
}

/** Returns a free port. It is fixed for the installation: clients find the next server at the same port. */
async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}
