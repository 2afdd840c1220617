import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Tokens for programs, as hashes: only their holder knows the token.
  await sql`
    create table api_tokens (
      id            uuid primary key default dms_uuidv7(),
      user_id       uuid not null references users (id) on delete cascade,
      name          text not null,
      name_key      text not null,
      token_hash    text not null unique,
      scopes        text[] not null,
      -- the user's at creation: signing out everywhere ends API tokens too
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
