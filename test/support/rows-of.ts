/** The rows of a database as text, to prove what has changed in them and what has not. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../../src/app.ts'

/** Does the work. Returns its result, and the rows that were created or changed meanwhile, as table name and JSON. */
export async function rowsWritten<T>(app: App, work: () => Promise<T>): Promise<{ result: T; written: string[] }> {
  const now = await sql<{ id: string }>`select pg_current_xact_id()::text as id`.execute(app.db)
  const result = await work()
  const written = await rows(app, () => sql`xmin::text::bigint > ${now.rows[0]?.id}::bigint`)
  return { result, written }
}

/** Returns the rows of a user: own ones, and those of the user's documents, sources and shared links, by any author. */
export const rowsOf = (app: App, userId: string): Promise<string[]> => rows(app, (table, columns) => belonging(table, columns, userId))

/** Selects by columns; a table without such a column is searched for the user's id. */
function belonging(table: string, columns: readonly string[], userId: string): RawBuilder<unknown> {
  if (table === 'users') return sql`id = ${userId}`
  // What anybody does is written down there, whatever it is done to.
  if (table === 'audit_entries') return sql`false`
  const documents = sql`select id from documents where owner_id = ${userId}`
  const conditions: Readonly<Record<string, RawBuilder<unknown>>> = {
    owner_id: sql`owner_id = ${userId}`,
    user_id: sql`user_id = ${userId}`,
    created_by: sql`created_by = ${userId}`,
    document_id: sql`document_id in (${documents})`,
    source_id: sql`source_id in (select id from sources where owner_id = ${userId})`,
    link_id: sql`link_id in (select id from shared_links where document_id in (${documents}))`,
    sha256: sql`sha256 in (select sha256 from documents where owner_id = ${userId})`,
  }
  const held = Object.entries(conditions).filter(([column]) => columns.includes(column))
  if (held.length === 0) return sql`to_jsonb(t)::text like ${`%${userId}%`}`
  return sql.join(
    held.map(([, condition]) => condition),
    sql` or `,
  )
}

async function rows({ db }: App, which: (table: string, columns: readonly string[]) => RawBuilder<unknown>): Promise<string[]> {
  const tables = await sql<{ name: string; columns: string[] }>`
    select relname as name, array_agg(attname::text) as columns from pg_class join pg_attribute on attrelid = pg_class.oid
    where relkind = 'r' and relnamespace = current_schema()::regnamespace and attnum > 0 and not attisdropped group by 1`.execute(db)
  const selects = tables.rows.map(
    ({ name, columns }) =>
      sql`select ${sql.lit(name)} || ' ' || to_jsonb(t)::text as line from ${sql.table(name)} t where ${which(name, columns)}`,
  )
  const found = await sql<{ line: string }>`${sql.join(selects, sql` union all `)} order by 1`.execute(db)
  return found.rows.map(({ line }) => line)
}
