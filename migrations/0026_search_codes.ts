import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Words that are not made of letters alone have a mark of their own from now on. Entries of before are searched without, until a reindex; what is not begun yet is of today's form.
  for (const chunk of await chunks(db)) {
    await sql`update search_chunks set version = 7 where 'search_chunk_' || number = ${chunk} and not exists (select from ${sql.id(chunk)})`.execute(
      db,
    )
  }
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`update search_chunks set version = 6 where version = 7`.execute(db)
}

async function chunks(db: Kysely<unknown>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select 'search_chunk_' || number as name from search_chunks`.execute(db)
  return rows.map(({ name }) => name)
}
