import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Empty means what the configuration says, also after the configuration changed.
  await sql`alter table user_settings alter column items_per_page drop not null, alter column items_per_page drop default`.execute(db)
}
