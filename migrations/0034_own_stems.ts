import { type Kysely, sql } from 'kysely'

/** A word that is its own stem is not stored as one: searches find it in search_words. That was more than half of the rows. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`delete from search_stems where stem = word`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`
    insert into search_stems (language, stem, word)
    select language, word, word from search_languages cross join search_words where dms_stem(language, word) = word
    on conflict do nothing`.execute(db)
}
