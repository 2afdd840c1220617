import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // In the row itself stands what most searches ask of an entry: the words that it says most about, and the order of all of them. Those in `words` are kept apart,
  // and a page of them that is not in memory costs more than all the rest. Entries of before have nothing there, and their words are read.
  for (const chunk of await chunks(db)) {
    await sql`alter table ${sql.id(chunk)} add column telling tsvector, add column word_order bytea`.execute(db)
    await sql`alter table ${sql.id(chunk)} alter telling set storage main, alter word_order set storage main, alter telling set statistics 0`.execute(
      db,
    )
    // What is not begun yet is of today's form.
    await sql`update search_chunks set version = 6 where 'search_chunk_' || number = ${chunk} and not exists (select from ${sql.id(chunk)})`.execute(
      db,
    )
  }
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const chunk of await chunks(db)) await sql`alter table ${sql.id(chunk)} drop column telling, drop column word_order`.execute(db)
}

async function chunks(db: Kysely<unknown>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select 'search_chunk_' || number as name from search_chunks`.execute(db)
  return rows.map(({ name }) => name)
}
