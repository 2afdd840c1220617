/** The worker process of a server. It ends with the server. */
import { NewerSchema } from '../db/migrate.ts'
import { killOwnGroup, lowerPriority, startWatchdog } from '../extract/process/start-watchdog.ts'
import { openLog } from '../log/log.ts'
import { runningJobs, startConfigured, type Worker, waitForAbort, withApp } from './run.ts'
import { type Heartbeat, heartbeatIntervalMs, type ToWorker } from './supervisor.ts'

/** Scheduling priority below the server's and above that of readers: requests do not wait for jobs. */
const niceness = 5

/**
 * Runs jobs until the server sends `stop` or `release`, or until `signal` aborts. Kills its process group as soon as the server is gone.
 * Throws like openApp() does.
 */
export async function runSupervised(signal: AbortSignal): Promise<void> {
  process.on('disconnect', killOwnGroup)
  if (!process.connected) killOwnGroup()
  lowerPriority(niceness)
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
    if (message.kind === 'release') void (worker?.releaseNow() ?? Promise.resolve()).finally(killOwnGroup)
  })
  // The server forwards its own SIGHUP. `systemctl kill --signal HUP` sends it to every process of a unit.
  process.on('SIGHUP', () => log?.reopen())
  const { config, parentPid } = await started
  startWatchdog({ parentPid, memoryBytes: Number.POSITIVE_INFINITY, workLimits: null })
  const send = () => process.send?.({ running: worker ? runningJobs(worker) : [] } satisfies Heartbeat, () => {})
  const heartbeat = setInterval(send, heartbeatIntervalMs)
  const anyStop = AbortSignal.any([signal, stopping.signal])
  try {
    log = openLog(config.log)
    await withApp(config, log, { migrate: 'never' }, async (app) => {
      if (anyStop.aborted) return
      worker = await startConfigured(app)
      app.log.info({ worker: worker.name, queues: config.worker.queues }, 'working')
      const end = await Promise.race([waitForAbort(anyStop), worker.outdated])
      await worker.stop(stopTimeoutMs ?? config.server.shutdown_timeout)
      if (end instanceof NewerSchema) throw end
    })
  } finally {
    clearInterval(heartbeat)
    process.off('disconnect', killOwnGroup)
    process.disconnect?.()
  }
}
