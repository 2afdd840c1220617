/** Rights of the application's role where another role owns the tables. The owner grants them; each start checks them, since a restore recreates tables. */
import { sql } from 'kysely'
import type { Db, Trx } from './pool.ts'

/** Tables that the application makes and drops itself. */
const searchTables = '^search_chunk_[0-9]+$'

/** Whether the role of this connection lacks rights to a table of its schema. Never where it owns all of them. */
export async function lacksRights(db: Db): Promise<boolean> {
  const { rows } = await sql<{ lacks: boolean }>`
    select exists (select from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and case when relname ~ ${searchTables} then not pg_has_role(relowner, 'member')
          else not has_table_privilege(oid, case relname when 'migrations' then 'select' else 'delete' end) end) as lacks`.execute(db)
  return rows[0]?.lacks === true
}

/**
 * Gives `role` all rights to rows of the owner's tables, those that are made later included, and the tables of the search index.
 * The owner has to be a member of the role. Throws what PostgreSQL says where it is not the owner.
 */
export async function grantRights(owner: Db, role: string): Promise<void> {
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
      else if (name === 'migrations') await grantReadOnly(trx, name, role)
      else await sql`grant select, insert, update, delete on ${relation} to ${to}`.execute(trx)
    }
  })
}

async function grantReadOnly(trx: Trx, table: string, role: string): Promise<void> {
  await sql`revoke all on ${sql.id(table)} from ${sql.id(role)}`.execute(trx)
  await sql`grant select on ${sql.id(table)} to ${sql.id(role)}`.execute(trx)
}
