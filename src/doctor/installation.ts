/** What is examined: the parts of this installation, each opened when a question first needs it. */
import type { App } from '../app.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Log } from '../log/log.ts'
import { type OpenedDatabase, openApp, openConfiguredDatabase } from '../open-app.ts'
import { NotHere } from './doctor.ts'

export interface Patient {
  readonly loaded: LoadedConfig & { readonly problems: readonly string[] }
  readonly log: Log
  /** Throws what the connection says the first time, NotHere from then on. */
  database(): Promise<OpenedDatabase>
  /** Everything joined; throws NotHere where that cannot be. */
  app(): Promise<App>
  close(): Promise<void>
}

/** Opens nothing yet. `loaded` may have problems. */
export function admit(loaded: Patient['loaded'], log: Log): Patient {
  let database: Promise<OpenedDatabase> | null = null
  let app: Promise<App & { close(): Promise<void> }> | null = null
  let isDown = false
  const patient: Patient = {
    loaded,
    log,
    async database() {
      if (isDown) throw new NotHere('the database is out of reach')
      try {
        database ??= openConfiguredDatabase(loaded.config, log, true)
        const opened = await database
        await opened.db.selectNoFrom((eb) => eb.lit(1).as('one')).execute()
        return opened
      } catch (error) {
        isDown = true
        throw error
      }
    },
    async app() {
      if (loaded.problems.length > 0) throw new NotHere('the configuration is wrong')
      await patient.database().catch(() => {
        throw new NotHere('the database is out of reach')
      })
      app ??= openApp(loaded.config, log, { migrate: 'never' })
      return app.catch(() => {
        throw new NotHere('dms cannot start')
      })
    },
    async close() {
      await (await app?.catch(() => null))?.close()
      await (await database?.catch(() => null))?.close()
    },
  }
  return patient
}
