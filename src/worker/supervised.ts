/** The worker process of a server: it has no life of its own. */
import type { Config } from '../config/schema.ts'
import { deadlineCell, killGroup, startWatchdog } from '../extract/process/start-watchdog.ts'
import { openLog } from '../log/log.ts'
import { openApp } from '../open-app.ts'
import { type Heartbeat, heartbeatIntervalMs, type ToWorker } from './messages.ts'
import { runningJobs, startConfigured, type Worker } from './run.ts'

/**
 * Works until the server says `stop` or `release`, or until `signal`; returns after that. Kills its process group as soon as the server is gone.
 * Throws as openApp() does.
 */
export async function runSupervised(signal: AbortSignal): Promise<void> {
  process.on('disconnect', killGroup)
  if (!process.connected) killGroup()
  const { promise: started, resolve: start } = Promise.withResolvers<Extract<ToWorker, { kind: 'start' }>>()
  const stopping = new AbortController()
  let stopTimeoutMs: number | null = null
  let worker: Worker | null = null
  let log: ReturnType<typeof openLog> | null = null
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'start') start(message)
    if (message.kind === 'reopen' && log) {
      log.reopen()
      log.level = message.level
    }
    if (message.kind === 'stop') {
      stopTimeoutMs = message.timeoutMs
      stopping.abort()
    }
    if (message.kind === 'release') void (worker?.releaseNow() ?? Promise.resolve()).finally(killGroup)
  })
  // The server passes on what it hears. This one is for `systemctl kill --signal HUP`, which tells every process of a unit.
  process.on('SIGHUP', () => log?.reopen())
  const { config, parentPid } = await started
  startWatchdog({ parentPid, memoryBytes: Number.POSITIVE_INFINITY, deadlineNs: deadlineCell() })
  const send = () => process.send?.({ running: worker ? runningJobs(worker) : [] } satisfies Heartbeat, () => {})
  const heartbeat = setInterval(send, heartbeatIntervalMs)
  try {
    log = openLog(config.log)
    await work(config, log, AbortSignal.any([signal, stopping.signal]), {
      started(now) {
        worker = now
      },
      timeoutMs: () => stopTimeoutMs ?? config.server.shutdown_timeout,
    })
  } finally {
    clearInterval(heartbeat)
    process.off('disconnect', killGroup)
    process.disconnect?.()
  }
}

interface Run {
  started(worker: Worker): void
  /** how long running jobs may take at the end */
  timeoutMs(): number
}

async function work(config: Config, log: ReturnType<typeof openLog>, signal: AbortSignal, run: Run): Promise<void> {
  const app = await openApp(config, log, { migrate: 'never', hasStatementTimeout: false })
  try {
    if (signal.aborted) return
    const worker = await startConfigured(app)
    run.started(worker)
    log.info({ worker: worker.name, queues: config.worker.queues }, 'working')
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    await worker.stop(run.timeoutMs())
  } finally {
    await app.close()
  }
}
