import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // When what is done from time to time was last done well: cron's work, told by the server, needs no push gateway.
  await sql`create table runs (name text primary key, last_success_at timestamptz not null)`.execute(db)
}

export const loses = 'when backups and other recurring work was last done'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table runs`.execute(db)
}
