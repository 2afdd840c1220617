/** A server from start to stop. */
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
import { passedSocket, serviceManager } from './systemd.ts'
import { openWebSockets } from './websocket/websocket.ts'

export interface ServerOptions {
  migrate: OpenOptions['migrate']
  /** milliseconds that the database may take to come up */
  waitForDatabaseMs: number
  /** do everything that can fail, then stop without serving */
  checkOnly: boolean
  /** aborts: stop, and let what runs end */
  signal: AbortSignal
  /** takes what is to be done before everything ends at once */
  onForcedExit(work: () => Promise<void>): void
  /** the variables of this process, for what systemd says in them */
  env: Readonly<Record<string, string | undefined>>
  /** one line to whoever started it */
  printLine(line: string): void
  /** the level that the log shall have from now on, asked for on SIGHUP */
  readLevel(): Promise<string>
}

/** Serves until `signal`; returns after a clean stop. */
export async function runServer(config: Config, options: ServerOptions): Promise<void> {
  const log = openLog(config.log)
  let reportStatus = () => log.info('starting')
  await onSignals(log, { levelNow: options.readLevel, tell: () => reportStatus() }, async () => {
    const app = await retryUntilAvailable(options, () => openApp(config, log, { migrate: options.migrate }))
    try {
      if (options.checkOnly) {
        if (config.metrics.enabled) (await openMetricsPort(app, openRecorder())).close()
        await tryListening(config, passedSocket(options.env))
        return options.printLine(`could start (${await summary(app)})`)
      }
      await createFirstAdmin(app, options.printLine)
      const authCache = openAuthCache(app)
      const began = (report: () => void) => {
        reportStatus = report
      }
      await serve(app, authCache, options, began).finally(() => authCache.close())
    } finally {
      await app.close()
    }
  })
}

/** Tries again each second for as long as the database may take. */
async function retryUntilAvailable<T>(
  { waitForDatabaseMs: waitForDatabase, signal, printLine: say }: ServerOptions,
  open: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + waitForDatabase
  for (let isPrinted = false; ; isPrinted = true) {
    try {
      return await open()
    } catch (error) {
      if (!isUnavailable(error) || performance.now() >= deadline || signal.aborted) throw error
      if (!isPrinted) say(`waiting for the database: ${(error as Error).message}`)
    }
    await sleep(1000, undefined, { signal })
  }
}

/** `began` is handed what says in the log how it is going. */
async function serve(
  app: App,
  authCache: AuthCache,
  { signal, onForcedExit: lastly, env, printLine: say, readLevel: levelNow }: ServerOptions,
  began: (report: () => void) => void,
): Promise<void> {
  const { config, log } = app
  const manager = serviceManager(env, log)
  const passed = passedSocket(env)
  const eventLoop = watchEventLoop(log, { warnMs: config.server.event_loop_warn })
  const recorder = openRecorder(eventLoop.families)
  const metrics = config.metrics.enabled ? await openMetricsPort(app, recorder) : null
  const h3 = buildServer(app, { isDraining: () => signal.aborted, authCache, recorder, eventLoop })
  const listening = await listen(h3, config, passed)
  const live = await openWebSockets(app, listening.server)
  const workerProcess = config.worker.embedded && !config.worker.in_server_process ? startWorkerProcess(config, log, env) : null
  const worker = workerProcess ?? (config.worker.embedded ? await startConfigured(app) : null)
  if (worker) lastly(() => worker.releaseNow())
  const status = `listening on ${listening.url} (${await summary(app)}${worker ? '' : ', no worker'})`
  say(status)
  began(() => {
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
  const unwatch = manager.startWatchdog(() => app.db.selectNoFrom(sql`1`.as('one')).execute())
  const renew = () => {
    listening.renewCertificate().catch((error) => log.error({ err: error }, 'the certificate stays as it was'))
    // What is wrong with the configuration is logged by onSignals().
    levelNow().then(
      (level) => workerProcess?.reopen(level),
      () => {},
    )
  }
  process.on('SIGHUP', renew)
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  log.info('stopping')
  process.off('SIGHUP', renew)
  unwatch()
  const { drain_delay, shutdown_timeout } = config.server
  // Both at once: what is being read is given back soon enough while answers are still on their way.
  const close = () => Promise.all([listening.close(shutdown_timeout), live.close()])
  await Promise.all([manager.stopping(), sleep(drain_delay).then(close), worker?.stop(shutdown_timeout)])
  metrics?.close()
  eventLoop.close()
}

async function summary({ db, search, ocr }: App): Promise<string> {
  const schema = (await loadStates(db)).at(-1)?.name.slice(0, 4) ?? 'none'
  const languages = [...(ocr?.languages.keys() ?? [])].filter((code) => code !== 'osd').sort()
  return `schema ${schema}, search ${search.name}, ocr ${ocr ? `${ocr.engine} ${languages.join('+')}` : 'off'}`
}

async function createFirstAdmin(app: App, say: ServerOptions['printLine']): Promise<void> {
  const made = await ensureFirstAdmin(app)
  if (made)
    say(`first admin: ${app.config.auth.admin_username}, password ${made.password} (also in ${app.config.data_dir}/initial-admin-password)`)
}
