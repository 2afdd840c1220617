/** Runs a server from start to stop. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Config } from '../config/schema.ts'
import { loadStates } from '../db/migrate.ts'
import { isUnavailable } from '../db/pool.ts'
import { onSignals, openLog } from '../log/log.ts'
import { type OpenOptions, openApp } from '../open-app.ts'
import { ensureFirstAdmin } from '../users/first-admin.ts'
import { startConfigured } from '../worker/run.ts'
import { startWorkerProcess } from '../worker/supervisor.ts'
import { watchEventLoop } from './event-loop.ts'
import { buildServer } from './http/assemble.ts'
import { type AuthCache, openAuthCache } from './http/auth-cache.ts'
import { openRecorder } from './http/request-metrics.ts'
import { listen, tryListening } from './listen.ts'
import { openMetricsPort } from './metrics-port.ts'
import { openReplicaReads } from './replica-reads.ts'
import { checkSecret } from './server-heartbeat.ts'
import { passedSocketFd, serviceManager } from './systemd.ts'
import { openWebSockets } from './websocket/websocket.ts'

export interface ServerOptions {
  migrate: OpenOptions['migrate']
  /** Maximum time to wait for the database. */
  waitForDatabaseMs: number
  /** Checks everything that can fail, without serving. */
  checkOnly: boolean
  /** Stops the server after requests and jobs in progress. */
  signal: AbortSignal
  /** Registers work for a forced exit. */
  onForcedExit(work: () => Promise<void>): void
  /** Variables of this process, some of which systemd sets. */
  env: Readonly<Record<string, string | undefined>>
  /** Prints a line to the user who started the server. */
  printLine(line: string): void
  /** Reads the log level again, on SIGHUP. */
  readLevel(): Promise<string>
}

/** Serves until `signal` aborts, and returns after a clean stop. Throws an AbortError if `signal` aborts before the server listens. */
export async function runServer(config: Config, options: ServerOptions): Promise<void> {
  const log = openLog(config.log)
  let reportStatus = () => log.info('starting')
  await onSignals(log, { readLevel: options.readLevel, logStatus: () => reportStatus() }, async () => {
    const app = await retryUntilAvailable(options, () =>
      openApp(config, log, options.checkOnly ? { migrate: 'never' } : { migrate: options.migrate, creates: true, signal: options.signal }),
    )
    try {
      if (options.checkOnly) {
        if (config.metrics.enabled) (await openMetricsPort(app, openRecorder())).close()
        await tryListening(config, passedSocketFd(options.env))
        return options.printLine(`could start (${await summary(app)})`)
      }
      await createFirstAdmin(app, options.printLine)
      const authCache = openAuthCache(app)
      const onStart = (report: () => void) => {
        reportStatus = report
      }
      await serve(app, authCache, options, onStart).finally(() => authCache.close())
    } finally {
      await app.close()
    }
  })
}

/** Retries each second until `waitForDatabaseMs` is over. */
async function retryUntilAvailable<T>({ waitForDatabaseMs, signal, printLine }: ServerOptions, open: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + waitForDatabaseMs
  for (let isPrinted = false; ; isPrinted = true) {
    try {
      return await open()
    } catch (error) {
      if (!isUnavailable(error) || performance.now() >= deadline || signal.aborted) throw error
      if (!isPrinted) printLine(`waiting for the database: ${(error as Error).message}`)
    }
    await sleep(1000, undefined, { signal })
  }
}

/** Serves until `signal`. `onStart` gets a function that logs the status. */
async function serve(
  app: App,
  authCache: AuthCache,
  { signal, onForcedExit, env, printLine, readLevel }: ServerOptions,
  onStart: (report: () => void) => void,
): Promise<void> {
  const { config, log } = app
  const manager = serviceManager(env, log)
  const fd = passedSocketFd(env)
  const eventLoop = watchEventLoop(log, { warnMs: config.server.event_loop_warn })
  const replica = openReplicaReads(app)
  const recorder = openRecorder(() => [...eventLoop.families(), ...(replica?.families() ?? [])])
  const metrics = config.metrics.enabled ? await openMetricsPort(app, recorder) : null
  await checkSecret(app)
  const h3 = buildServer(app, { isDraining: () => signal.aborted, authCache, replica, recorder, eventLoop })
  const listening = await listen(h3, config, fd)
  const live = await openWebSockets(app, listening.server, { replica })
  const workerProcess = config.worker.embedded && !config.worker.in_server_process ? startWorkerProcess(config, log, env) : null
  const worker = workerProcess ?? (config.worker.embedded ? await startConfigured(app) : null)
  if (worker) onForcedExit(() => worker.releaseNow())
  const status = `listening on ${listening.url} (${await summary(app)}${worker ? '' : ', no worker'})`
  printLine(status)
  onStart(() => {
    listening.server.getConnections((_, connections) =>
      log.info(
        {
          state: signal.aborted ? 'stopping' : 'serving',
          uptime_seconds: Math.round(process.uptime()),
          connections,
          jobs: worker?.running().length,
          memory_bytes: process.memoryUsage.rss(),
        },
        'status',
      ),
    )
  })
  await manager.ready(status)
  // A restart helps against a blocked event loop or embedded database, not against an outage of an external one.
  const isEmbedded = config.database.url === ''
  const stopWatchdog = manager.startWatchdog(async () => isEmbedded && app.db.selectNoFrom(sql`1`.as('one')).execute())
  const reload = () => {
    listening.renewCertificate().catch((error) => log.error({ err: error }, 'cannot load the certificate; the old one stays in use'))
    // onSignals() logs errors of the configuration.
    readLevel().then(
      (level) => workerProcess?.reopen(level),
      () => {},
    )
  }
  process.on('SIGHUP', reload)
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  log.info('stopping')
  process.off('SIGHUP', reload)
  stopWatchdog()
  listening.drain()
  const { drain_delay, shutdown_timeout } = config.server
  // The worker stops while answers are sent.
  const close = () => Promise.all([listening.close(shutdown_timeout), live.close()])
  await Promise.all([manager.stopping(), sleep(drain_delay).then(close), worker?.stop(shutdown_timeout)])
  metrics?.close()
  replica?.close()
  eventLoop.close()
}

async function summary({ db, search, ocr }: App): Promise<string> {
  const schema = (await loadStates(db)).at(-1)?.name.slice(0, 4) ?? 'none'
  const languages = [...(ocr?.languages.keys() ?? [])].sort()
  return `schema ${schema}, search ${search.name}, ocr ${ocr ? `${ocr.engine} ${languages.join('+')}` : 'off'}`
}

async function createFirstAdmin(app: App, printLine: ServerOptions['printLine']): Promise<void> {
  const admin = await ensureFirstAdmin(app)
  if (admin)
    printLine(
      `first admin: ${app.config.auth.admin_username}, password ${admin.password} (also in ${app.config.data_dir}/initial-admin-password)`,
    )
}
