/** A database whose tables belong to another role than the application's, or to the same one. */
import { sql } from 'kysely'
import { ConfigError } from '../errors.ts'
import { grantRights, lacksRights } from './grants.ts'
import { type Database, type DatabaseOptions, openDatabase } from './pool.ts'

export interface OwnedDatabase extends Database {
  /** Runs `work` as the role that owns the tables, then gives the application its rights to what is new. For migrations, restores and other databases. */
  asOwner<T>(work: (owner: Database) => Promise<T>): Promise<T>
}

/** Connections of one command that works as the owner: one for the work, one for its lock, one to spare. */
const ownerPoolMax = 3

/** Joins `database`, of the application's role, with `owner`: the options of the other role. Gives missing rights at once. Throws ConfigError where they are two databases. */
export async function openOwnedDatabase(database: Database, owner: DatabaseOptions): Promise<OwnedDatabase> {
  const withOwner = async <T>(work: (opened: Database) => Promise<T>): Promise<T> => {
    const opened = openDatabase({ ...owner, poolMax: ownerPoolMax, statementTimeoutMs: 0 })
    try {
      return await work(opened)
    } finally {
      await opened.close()
    }
  }
  const grantMissingRights = async (): Promise<void> => {
    if (!(await lacksRights(database.db))) return
    await withOwner(async (opened) => {
      const [application, other] = [await loadIdentity(database), await loadIdentity(opened)]
      if (application.database !== other.database)
        throw new ConfigError(['database.migration_url and database.url name two databases: give both the same host, port and name'])
      await grantRights(opened.db, application.role)
    })
  }
  await grantMissingRights()
  return {
    ...database,
    async asOwner(work) {
      const result = await withOwner(work)
      await grantMissingRights()
      return result
    },
  }
}

/** The start of the server tells two databases of the same name apart. */
async function loadIdentity({ db }: Database): Promise<{ role: string; database: string }> {
  const { rows } = await sql<{ role: string; database: string }>`
    select current_user as role, current_database() || ' ' || pg_postmaster_start_time() as database`.execute(db)
  return rows[0]!
}
