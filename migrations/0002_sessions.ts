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

  // One row per counted action: sliding windows that survive restarts and are shared by all server processes.
  await sql`
    create table rate_hits (
      key text not null,
      at  timestamptz not null default clock_timestamp()
    )`.execute(db)
  await sql`create index on rate_hits (key, at)`.execute(db)
  // For the deletion of expired rows.
  await sql`create index on rate_hits (at)`.execute(db)
  // Unlogged: a database crash loses at most one minute of counts, and counting writes no WAL.
  await sql`
    create unlogged table call_windows (
      key       text primary key,
      starts_at timestamptz not null,
      used      integer not null
    )`.execute(db)

  // Servers with open WebSockets learn at once that a user's rights changed, whichever process changed them.
  await sql`
    create function dms_session_notify() returns trigger language plpgsql as $$
      begin
        perform pg_notify('dms_live', 'session:' || (case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end ->> tg_argv[0]));
        return null;
      end
    $$`.execute(db)
  await sql`
    create trigger dms_token_revoked after insert on revoked_tokens for each row execute function dms_session_notify('user_id')`.execute(db)
  await sql`
    create trigger dms_user_changed after update on users for each row
      when (new.role <> old.role or new.disabled <> old.disabled or new.token_version <> old.token_version)
      execute function dms_session_notify('id')`.execute(db)
  await sql`create trigger dms_user_deleted after delete on users for each row execute function dms_session_notify('id')`.execute(db)
}
