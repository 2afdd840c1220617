/** Supervises the worker process of a server: starts it, restarts it after its end, and kills it when it hangs. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config/schema.ts'
import type { Log } from '../log/log.ts'
import { killGroup } from '../processes.ts'

/** Messages from the server to its worker process. */
export type ToWorker =
  /** the first message */
  | { readonly kind: 'start'; readonly config: Config; readonly parentPid: number }
  /** lease no more jobs, wait for running ones, and exit */
  | { readonly kind: 'stop'; readonly timeoutMs: number }
  /** release the running jobs, and exit at once */
  | { readonly kind: 'release' }
  /** reopen the log file, and set the level */
  | { readonly kind: 'reopen'; readonly level: string }

export interface RunningJob {
  readonly job: string
  readonly kind: string
  readonly document_id: string | undefined
  readonly running_ms: number
}

/** The message that the main thread of the worker process sends each second. */
export interface Heartbeat {
  readonly running: readonly RunningJob[]
}

export const heartbeatIntervalMs = 1000

export interface WorkerProcess {
  /** Returns the running jobs of the last heartbeat. */
  running(): readonly RunningJob[]
  /** Reopens its log file and sets the level. */
  reopen(level: string): void
  /** Stops the process. Leases no more jobs and waits up to `timeoutMs` for running ones. */
  stop(timeoutMs: number): Promise<void>
  /** Stops the process. Its running jobs are released at once. */
  releaseNow(): Promise<void>
}

/** The program, seen from src/worker/ or from the bundle in dist/. */
const program = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../../bin/dms.js' : '../bin/dms.js', import.meta.url))

const minRestartMs = 1000
const maxRestartMs = 60_000
/** Exit codes of a schema or a configuration that this worker refuses. An immediate restart would not help. */
const refusalCodes = [8, 78]
/** Running time after which the restart delay is reset. */
const stableMs = 60_000
/** Time to close connections, after the time for the jobs. */
const closeTimeoutMs = 10_000
const releaseTimeoutMs = 2000

/** Environment variables of the worker. It gets its settings, with their secrets, in a message; its readers must not see other variables. */
const inheritedVariables =
  /^(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|JOURNAL_STREAM|NODE_\w+|SSL_CERT_\w+|LD_\w+|FAKETIME\w*|OMP_\w+|UV_\w+)$/

/** Starts the process without waiting until it works. Kills it after `worker.hang_timeout` without a heartbeat (0: never). */
export function startWorkerProcess(config: Config, log: Log, env: Readonly<Record<string, string | undefined>>): WorkerProcess {
  const hangTimeoutMs = config.worker.hang_timeout
  const childEnv = Object.fromEntries(Object.entries(env).filter(([name]) => inheritedVariables.test(name)))
  let child: ChildProcess
  let exited: Promise<void>
  let running: readonly RunningJob[] = []
  let isStopping = false
  let restartMs = minRestartMs
  let restart: NodeJS.Timeout | undefined

  function start(): void {
    const startedAt = performance.now()
    running = []
    const started = fork(program, ['worker', '--supervised'], {
      // A process group of its own: Ctrl-C is for the server, and a hanging worker is killed with its child processes.
      detached: true,
      env: childEnv,
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    child = started
    const stopWatching = watchHeartbeats(started, startedAt)
    started.on('error', (error) => log.error({ err: error }, 'the worker process cannot be reached'))
    exited = new Promise((resolve) => {
      const onEnd = (code: number | null, signal: NodeJS.Signals | null): void => {
        stopWatching()
        killGroup(started)
        resolve()
        if (isStopping) return
        if (performance.now() - startedAt > stableMs) restartMs = minRestartMs
        if (refusalCodes.includes(code ?? 0)) restartMs = maxRestartMs
        log.error({ pid: started.pid, code, signal, jobs: running, restart_ms: restartMs }, 'the worker process ended; starting it again')
        restart = setTimeout(start, restartMs)
        restartMs = Math.min(2 * restartMs, maxRestartMs)
      }
      started.once('exit', onEnd)
      // A process that could not be started emits no exit.
      started.once('error', () => started.pid === undefined && onEnd(null, null))
    })
    send({ kind: 'start', config, parentPid: process.pid })
  }

  function watchHeartbeats(watched: ChildProcess, startedAt: number): () => void {
    let heartbeatAt = startedAt
    let checkedAt = startedAt
    watched.on('message', (heartbeat: Heartbeat) => {
      heartbeatAt = performance.now()
      running = heartbeat.running
    })
    const timer = setInterval(() => {
      const now = performance.now()
      // This process itself was frozen or busy: heartbeats that arrived meanwhile are read after this timer.
      if (now - checkedAt > 3 * heartbeatIntervalMs) heartbeatAt = now
      checkedAt = now
      if (hangTimeoutMs === 0 || now - heartbeatAt <= hangTimeoutMs) return
      log.error({ pid: watched.pid, silent_ms: Math.round(now - heartbeatAt), jobs: running }, 'the worker process hangs: killing it')
      heartbeatAt = now
      killGroup(watched)
    }, heartbeatIntervalMs)
    return () => clearInterval(timer)
  }

  function send(message: ToWorker): void {
    if (child.connected) child.send(message, () => {})
  }

  /** Sends a message that ends the process, and kills it after `timeoutMs`. */
  async function end(message: ToWorker, timeoutMs: number): Promise<void> {
    isStopping = true
    clearTimeout(restart)
    send(message)
    const timer = setTimeout(() => {
      log.error({ pid: child.pid, jobs: running }, 'the worker process does not end: killing it')
      killGroup(child)
    }, timeoutMs)
    await exited
    clearTimeout(timer)
  }

  start()
  return {
    running: () => running,
    reopen: (level) => send({ kind: 'reopen', level }),
    stop: (timeoutMs) => end({ kind: 'stop', timeoutMs }, timeoutMs + closeTimeoutMs),
    releaseNow: () => end({ kind: 'release' }, releaseTimeoutMs),
  }
}
