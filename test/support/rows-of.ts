/** The rows of a test's database as text: for proving what has changed in them, and what has not. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../../src/app.ts'

/** Every row, as the name of its table and itself as JSON. */
export const allRows = (app: App): Promise<string[]> => rows(app, () => sql`true`)

/** The rows that belong to a user: own ones, and what hangs on the user's documents, sources and shared links, whoever made it. */
export const rowsOf = (app: App, userId: string): Promise<string[]> => rows(app, (table, columns) => belonging(table, columns, userId))

/** By what its columns say; a table without any of them is looked through for the user's id. */
function belonging(table: string, columns: readonly string[], userId: string): RawBuilder<unknown> {
  if (table === 'users') return sql`id = ${userId}`
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
    select table_name as name, array_agg(column_name::text) as columns
    from information_schema.columns join information_schema.tables using (table_schema, table_name)
    where table_schema = current_schema() and table_type = 'BASE TABLE' group by 1`.execute(db)
  const selects = tables.rows.map(
    ({ name, columns }) =>
      sql`select ${sql.lit(name)} || ' ' || to_jsonb(t)::text as line from ${sql.table(name)} t where ${which(name, columns)}`,
  )
  const found = await sql<{ line: string }>`${sql.join(selects, sql` union all `)} order by 1`.execute(db)
  return found.rows.map(({ line }) => line)
}
