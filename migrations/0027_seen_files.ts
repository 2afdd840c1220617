import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // run_id: the last sync that counted the file. seen_by: the last turn of a sync that listed it. An interrupted sync goes on in another turn.
  await sql`alter table source_files add column seen_by uuid`.execute(db)
  await sql`alter table source_folders rename column run_id to seen_by`.execute(db)
}

export const loses = 'which files an unfinished sync has seen since it went on'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table source_files drop column seen_by`.execute(db)
  await sql`alter table source_folders rename column seen_by to run_id`.execute(db)
}
