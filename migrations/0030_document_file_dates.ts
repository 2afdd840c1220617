import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // When the bytes of a document were replaced; null: never, they are as old as the document. What its file store says of them would tell when
  // somebody else uploaded the same.
  await sql`alter table documents add column file_replaced_at timestamptz`.execute(db)
}

export const loses = 'when the files of documents were replaced: downloads say when the document was made'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table documents drop column file_replaced_at`.execute(db)
}
