import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Tokens for programs. What they are is known to their holder alone: only hashes are here.
  await sql`
    create table api_tokens (
      id            uuid primary key default dms_uuidv7(),
      user_id       uuid not null references users (id) on delete cascade,
      name          text not null,
      name_key      text not null,
      token_hash    text not null unique,
      scopes        text[] not null,
      -- of the user when it was made: what ends all sessions of somebody ends these too
      token_version integer not null,
      created_at    timestamptz not null default now(),
      expires_at    timestamptz,
      last_used_at  timestamptz,
      unique (user_id, name_key)
    )`.execute(db)
}

export const loses = 'the API tokens: programs that use them are signed out'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table api_tokens`.execute(db)
}
