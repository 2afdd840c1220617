import { type Kysely, sql } from 'kysely'

const pieces = ['search_words_pieces', 'search_codes_pieces']

export async function up(db: Kysely<unknown>): Promise<void> {
  // Words of one length by their beginning and by their end, for those within reach of a typo: of a piece of two letters or three search_words_pieces
  // finds all words that have it, of any length, and each had to be read.
  await sql`create index search_words_beginnings on search_words (char_length(word), word)`.execute(db)
  await sql`create index search_words_endings on search_words (char_length(word), reverse(word)) include (word)`.execute(db)
  // What was written last is looked through word by word until it is moved into the index; four megabytes of it took longer than all the rest.
  for (const index of pieces) {
    await sql`alter index ${sql.ref(index)} set (gin_pending_list_limit = 256)`.execute(db)
    await sql`select gin_clean_pending_list(${index}::regclass)`.execute(db)
  }
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const index of pieces) await sql`alter index ${sql.ref(index)} reset (gin_pending_list_limit)`.execute(db)
  await sql`drop index search_words_beginnings, search_words_endings`.execute(db)
}
