import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // RFC 9562 UUIDv7: 48 bits of Unix milliseconds, version, variant, random. PostgreSQL has its own only from 18 on.
  await sql`
    create function dms_uuidv7() returns uuid language sql volatile parallel safe as $$
      select encode(
        set_bit(set_bit(
          overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
          52, 1), 53, 1), 'hex')::uuid
    $$`.execute(db)
  await sql`
    create table users (
      id                uuid primary key default dms_uuidv7(),
      username          text not null,
      username_key      text not null unique,
      email             text not null,
      email_key         text not null unique,
      email_verified_at timestamptz,
      password_hash     text,
      role              text not null default 'user' check (role in ('admin', 'user')),
      display_name      text not null default '',
      disabled          boolean not null default false,
      auth_method       text not null default 'local' check (auth_method in ('local', 'oidc')),
      oidc_issuer       text,
      oidc_subject      text,
      groups            text[] not null default '{}',
      groups_synced_at  timestamptz,
      token_version     integer not null default 1,
      created_at        timestamptz not null default now(),
      updated_at        timestamptz not null default now(),
      last_login_at     timestamptz,
      unique (oidc_issuer, oidc_subject)
    )`.execute(db)
}
