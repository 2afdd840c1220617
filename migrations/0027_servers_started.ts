import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Whoever asks beside the servers, as the shell does, cannot look at their processes. Those that run now say it when they are started again.
  await sql`alter table servers add column started_at timestamptz not null default now()`.execute(db)
}

export const loses = 'since when servers run'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table servers drop column started_at`.execute(db)
}
