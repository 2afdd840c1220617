import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Whether an entry's long document answers every query: a phrase, and any word of one that has more words than its entry holds (parts 2), is looked for in its passages.
  // A function, because a search asks it of every chunk: written out there, planning it took longer than the search.
  await sql`
    create function dms_search_in_passages(document uuid, in_chunk integer, parts smallint, queries tsquery[], phrases boolean[], negated boolean[])
    returns boolean language plpgsql stable as $$
    begin
      return not exists (
        select from unnest(queries, phrases, negated) as term (query, is_phrase, is_negated)
        where (dms_search_in_passages.parts = 2 or is_phrase) and is_negated = exists (
          select from search_passages passage
          where passage.document_id = document and passage.chunk = in_chunk and passage.words @@ term.query));
    end $$`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop function dms_search_in_passages(uuid, integer, smallint, tsquery[], boolean[], boolean[])`.execute(db)
}
