import { type Kysely, sql } from 'kysely'

const signature = sql`dms_stem(language text, word text) returns text`
const properties = sql`immutable strict parallel safe`

/** Makes new words of the vocabulary cheaper. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // PL/pgSQL keeps the expression of a function between calls, of which each takes 2 µs. SQL prepares it for each call, which takes 21 µs.
  const { rows } = await sql<{ body: string }>`select pg_get_function_sqlbody('dms_stem(text, text)'::regprocedure) as body`.execute(db)
  await sql`
    create or replace function ${signature} language plpgsql ${properties} as ${sql.lit(`begin ${rows[0]!.body}; end`)}`.execute(db)
  // With 256 kB, a word has 1.3 kB of WAL for this index, with 4 MB 0.5 kB. A search for a part of a word takes up to 1.5 ms longer.
  await setPendingListLimits(db, 4096)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ body: string }>`
    select substr(prosrc, length('begin ') + 1, length(prosrc) - length('begin ; end')) as body from pg_proc
    where oid = 'dms_stem(text, text)'::regprocedure`.execute(db)
  await sql`create or replace function ${signature} language sql ${properties} ${sql.raw(rows[0]!.body)}`.execute(db)
  await setPendingListLimits(db, 256)
}

async function setPendingListLimits(db: Kysely<unknown>, kilobytes: number): Promise<void> {
  for (const index of ['search_words_pieces', 'search_codes_pieces'])
    await sql`alter index ${sql.id(index)} set (gin_pending_list_limit = ${sql.lit(kilobytes)})`.execute(db)
}
