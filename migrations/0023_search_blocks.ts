import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Within a chunk, documents stand in blocks by id, so that the newest of very many matches are found without looking at all of them: the least id of each block. Entries say by a hint in which they are.
  await sql`alter table search_chunks add column blocks uuid[] not null default '{}'`.execute(db)
  // What matches are counted by, beside the words: to look a thousand documents up took longer than to find them. Entries of before have nothing there, and their documents are looked up.
  for (const chunk of await chunks(db)) {
    await sql`alter table ${sql.id(chunk)} add column mime_type text, add column label_ids uuid[]`.execute(db)
    await sql`alter table ${sql.id(chunk)} alter mime_type set storage main, alter label_ids set storage main`.execute(db)
    // What is not begun yet is of today's form.
    await sql`update search_chunks set version = 5, blocks = array[from_id] where 'search_chunk_' || number = ${chunk} and not exists (select from ${sql.id(chunk)})`.execute(
      db,
    )
  }
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const chunk of await chunks(db)) await sql`alter table ${sql.id(chunk)} drop column mime_type, drop column label_ids`.execute(db)
  await sql`alter table search_chunks drop column blocks`.execute(db)
}

async function chunks(db: Kysely<unknown>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`select 'search_chunk_' || number as name from search_chunks`.execute(db)
  return rows.map(({ name }) => name)
}
