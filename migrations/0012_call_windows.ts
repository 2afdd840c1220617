import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Unlogged: a crash of the database forgets at most a minute's counts, and counting costs no log.
  await sql`
    create unlogged table call_windows (
      key       text primary key,
      starts_at timestamptz not null,
      used      integer not null
    )`.execute(db)
}
