import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table revoked_tokens (
      jti        uuid primary key,
      user_id    uuid not null references users (id) on delete cascade,
      expires_at timestamptz not null
    )`.execute(db)
  await sql`create index on revoked_tokens (expires_at)`.execute(db)
  await sql`
    create table email_verifications (
      token_hash text primary key,
      user_id    uuid not null references users (id) on delete cascade,
      expires_at timestamptz not null,
      created_at timestamptz not null default now()
    )`.execute(db)
  // One row per counted act: sliding windows that hold over restarts and server processes.
  await sql`
    create table rate_hits (
      key text not null,
      at  timestamptz not null default clock_timestamp()
    )`.execute(db)
  await sql`create index on rate_hits (key, at)`.execute(db)
  // To find what can be forgotten of keys that nobody comes back with.
  await sql`create index on rate_hits (at)`.execute(db)
}
