import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Words of one length by their beginning and by their end, for those within reach of a typo: of a piece of two letters or three search_words_pieces
  // finds all words that have it, of any length, and each had to be read.
  await sql`create index search_words_beginnings on search_words (char_length(word), word)`.execute(db)
  await sql`create index search_words_endings on search_words (char_length(word), reverse(word)) include (word)`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop index search_words_beginnings, search_words_endings`.execute(db)
}
