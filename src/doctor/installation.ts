/** Opens the parts of this installation when a check first needs them. */
import type { App } from '../app.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Log } from '../log/log.ts'
import { type OpenedDatabase, openApp, openConfiguredDatabase } from '../open-app.ts'
import { SkippedCheck } from './doctor.ts'

export interface LazyInstallation {
  readonly loaded: LoadedConfig & { readonly problems: readonly string[] }
  readonly log: Log
  /** Throws the connection error. Only the check `database` calls it; others call reachDatabase(). */
  database(): Promise<OpenedDatabase>
  /** Throws SkippedCheck if the app cannot be opened. */
  app(): Promise<App>
  close(): Promise<void>
}

/** Returns an installation that opens each part at its first use. `loaded` may be an invalid configuration. */
export function openLazyInstallation(loaded: LazyInstallation['loaded'], log: Log): LazyInstallation {
  let database: Promise<OpenedDatabase> | null = null
  let app: ReturnType<typeof openApp> | null = null
  const open = async () => {
    const opened = await openConfiguredDatabase(loaded.config, log, { hasStatementTimeout: true })
    try {
      await opened.db.selectNoFrom((eb) => eb.lit(1).as('one')).execute()
      return opened
    } catch (error) {
      await opened.close()
      throw error
    }
  }
  return {
    loaded,
    log,
    database: () => (database ??= open()),
    async app() {
      if (loaded.problems.length > 0) throw new SkippedCheck('the configuration is wrong')
      await reachDatabase(this)
      app ??= openApp(loaded.config, log, { migrate: 'never' })
      return app.catch(() => {
        throw new SkippedCheck('dms cannot start')
      })
    },
    async close() {
      await (await app?.catch(() => null))?.close()
      await (await database?.catch(() => null))?.close()
    },
  }
}

/** Returns the database. Throws SkippedCheck if it cannot be reached, because the check `database` reports the cause. */
export const reachDatabase = (installation: LazyInstallation): Promise<OpenedDatabase> =>
  installation.database().catch(() => {
    throw new SkippedCheck('the database is out of reach')
  })
