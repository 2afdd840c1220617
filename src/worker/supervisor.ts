/** Keeps the worker process of a server: starts it, starts it again after its end, and kills one that hangs. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Config } from '../config/schema.ts'
import type { Log } from '../log/log.ts'
import { type Heartbeat, heartbeatIntervalMs, type RunningJob, type ToWorker } from './messages.ts'

type Variables = Readonly<Record<string, string | undefined>>

export interface WorkerProcess {
  /** what it did a second ago */
  running(): readonly RunningJob[]
  /** Opens its log file again and takes this level. */
  reopen(level: string): void
  /** Ends it; it takes no more jobs, and running ones have so many milliseconds. */
  stop(timeoutMs: number): Promise<void>
  /** Ends it; it gives back what it runs at once. */
  releaseNow(): Promise<void>
}

/** Source and build lie at different depths. */
const program = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../../bin/dms.js' : '../bin/dms.js', import.meta.url))

const firstRestartMs = 1000
const longestRestartMs = 60_000
/** A worker that ran for so long did not fail at its start: the next restart is a first one. */
const stableMs = 60_000
/** After the timeout of its jobs, for closing what is open. */
const closeTimeoutMs = 10_000
const releaseTimeoutMs = 2000

/** The worker gets its settings, and the secrets among them, in a message. What other variables hold is no business of its readers. */
const inheritedVariables =
  /^(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|JOURNAL_STREAM|NODE_\w+|SSL_CERT_\w+|LD_\w+|FAKETIME\w*|OMP_\w+|UV_\w+)$/

/** Starts it without waiting until it works. `hangTimeoutMs` without a heartbeat of its main thread, and it is killed; 0: never. */
export function startWorkerProcess(config: Config, log: Log, env: Variables): WorkerProcess {
  const hangTimeoutMs = config.worker.hang_timeout
  const childEnv = Object.fromEntries(Object.entries(env).filter(([name]) => inheritedVariables.test(name)))
  let child: ChildProcess
  let exited: Promise<void>
  let running: readonly RunningJob[] = []
  let isStopping = false
  let restartMs = firstRestartMs
  let restart: NodeJS.Timeout | undefined

  function start(): void {
    const startedAt = performance.now()
    running = []
    const started = fork(program, ['worker', '--supervised'], {
      // A group of its own: Ctrl-C is for the server, and a worker that hangs is killed with what it started.
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
        if (performance.now() - startedAt > stableMs) restartMs = firstRestartMs
        log.error({ pid: started.pid, code, signal, jobs: running, restart_ms: restartMs }, 'the worker process ended; starting it again')
        restart = setTimeout(start, restartMs)
        restartMs = Math.min(2 * restartMs, longestRestartMs)
      }
      started.once('exit', onEnd)
      // One that could not be started has no exit.
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
      // This process was stopped or busy itself: what the worker sent meanwhile is read after this.
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

  /** Asks it to end, and kills it where it does not. */
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

/** The worker leads a group; its readers have theirs, and end as soon as they miss it. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // No such group: all of it is gone.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
