import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
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
