import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // A constant default: no row is rewritten.
  await sql`alter table jobs add column losses integer not null default 0`.execute(db)
}

export const loses = 'how often the workers of jobs died'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table jobs drop column losses`.execute(db)
}
