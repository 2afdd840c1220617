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

  // Words that nobody means with a typo (numbers, codes, short and long ones), apart from search_words, which must stay quick to read:
  // with it all words of which a piece could be asked for.
  await sql`create table search_codes (word text collate "C" primary key)`.execute(db)
  await sql`create index search_codes_pieces on search_codes using gin (word gin_trgm_ops)`.execute(db)

  // A text as pieces of it are compared; plain() of src/search/words.ts does the same.
  await sql`
    create function dms_plain(text) returns text language sql immutable strict parallel safe return
      case when octet_length($1) = char_length($1) then lower($1)
      else replace(replace(replace(replace(translate(
        regexp_replace(lower(normalize($1, nfkd)),
          '[\\u0300-\\u036f\\u0483-\\u0487\\u0591-\\u05c7\\u0610-\\u061a\\u0640\\u064b-\\u065f\\u0670\\u06d6-\\u06ed\\u00ad\\u200b-\\u200d\\u2060\\ufeff]', '', 'g'),
        'øđðłħıŧς', 'oddlhitσ'), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe'), 'þ', 'th')
      end`.execute(db)
}
