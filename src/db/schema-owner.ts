/** Rights of the application's role where another role owns the tables. Each start checks them, because a restore recreates tables. */
import { sql } from 'kysely'
import { ConfigError } from '../errors.ts'
import { type Database, type DatabaseOptions, type Db, openDatabase } from './pool.ts'

export interface OwnedDatabase extends Database {
  /** Runs `work` as the role that owns the tables, then grants the application its rights to new tables. */
  asOwner<T>(work: (owner: Database) => Promise<T>): Promise<T>
}

/** Connections of a command that works as the owner: one for the work, one for its lock, one spare. */
const ownerPoolMax = 3

/** Tables that the application creates and drops itself. */
const searchTables = '^search_segment_[0-9]+$'

/** Adds the owner's role to the application's `database`, and grants missing rights. Throws ConfigError if the two roles use different databases. */
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
      const application = await loadIdentity(database)
      const other = await loadIdentity(opened)
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

/** Loads the role and the identity of a database. The server's start time distinguishes databases of the same name. */
async function loadIdentity({ db }: Database): Promise<{ role: string; database: string }> {
  const { rows } = await sql<{ role: string; database: string }>`
    select current_user as role, current_database() || ' ' || pg_postmaster_start_time() as database`.execute(db)
  return rows[0]!
}

/** Returns whether the role of this connection lacks rights to a table of its schema. False for the owner. */
async function lacksRights(db: Db): Promise<boolean> {
  const { rows } = await sql<{ lacks: boolean }>`
    select exists (select from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v')
      and case when relname ~ ${searchTables} then not pg_has_role(relowner, 'member')
          else not has_table_privilege(oid, case relname when 'migrations' then 'select' else 'delete' end) end) as lacks`.execute(db)
  return rows[0]?.lacks === true
}

/**
 * Grants `role` all rights to rows of the owner's present and future tables, and ownership of the search tables.
 * The owner must be a member of the role. Throws PostgreSQL's error if it does not own the tables.
 */
async function grantRights(owner: Db, role: string): Promise<void> {
  await owner.transaction().execute(async (trx) => {
    const { rows } = await sql<{ schema: string }>`select current_schema() as schema`.execute(trx)
    const schema = sql.id(rows[0]?.schema ?? 'public')
    const to = sql.id(role)
    await sql`grant usage, create on schema ${schema} to ${to}`.execute(trx)
    await sql`alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${to}`.execute(trx)
    await sql`alter default privileges in schema ${schema} grant usage, select, update on sequences to ${to}`.execute(trx)
    const { rows: relations } = await sql<{ name: string; kind: string; isSearch: boolean }>`
      select relname as name, relkind as kind, relname ~ ${searchTables} as "isSearch" from pg_class
      where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'S') and pg_has_role(relowner, 'member')
        and relowner <> ${role}::regrole`.execute(trx)
    for (const { name, kind, isSearch } of relations) {
      const relation = sql.id(name)
      if (kind === 'S') await sql`grant usage, select, update on sequence ${relation} to ${to}`.execute(trx)
      else if (isSearch) await sql`alter table ${relation} owner to ${to}`.execute(trx)
      else if (name === 'migrations') {
        await sql`revoke all on ${relation} from ${to}`.execute(trx)
        await sql`grant select on ${relation} to ${to}`.execute(trx)
      } else await sql`grant select, insert, update, delete on ${relation} to ${to}`.execute(trx)
    }
  })
}
