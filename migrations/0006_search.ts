import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create extension if not exists pg_trgm`.execute(db)
  await sql`create extension if not exists fuzzystrmatch`.execute(db)

  // One row a document, newest id last. Filters are lexemes among the words (they begin with ~), so that one index answers both.
  // parts: 0 all in this row; 1 phrases past its head are in search_passages only; 2 so are words, of which it has too many.
  await sql`
    create table search_entries (
      document_id uuid primary key references documents (id) on delete cascade,
      words       tsvector not null,
      parts       smallint not null,
      created_at  timestamptz not null,
      confidence  real,
      version     smallint not null
    )`.execute(db)
  await sql`create index search_entries_words on search_entries using gin (words)`.execute(db)

  // Long documents piece by piece: a tsvector holds 1 MB, 16,383 positions and 255 of each word. Written before their entry, hence deferred.
  await sql`
    create table search_passages (
      document_id uuid not null references search_entries (document_id) on delete cascade deferrable initially deferred,
      passage     integer not null,
      words       tsvector not null,
      start_at    integer not null,
      length      integer not null,
      primary key (document_id, passage)
    )`.execute(db)

  // Every word seen, for typos. A word that no document holds any more costs a little time, never a wrong answer.
  await sql`create table search_words (word text collate "C" primary key)`.execute(db)
  await sql`create index search_words_pieces on search_words using gin (word gin_trgm_ops)`.execute(db)
}
