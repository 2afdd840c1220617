import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table sources (
      id            uuid primary key default dms_uuidv7(),
      owner_id      uuid not null references users (id) on delete cascade,
      name          text not null,
      type          text not null check (type in ('webdav', 'local_folder', 's3')),
      url           text not null,
      credentials   bytea,
      status        text not null default 'active' check (status in ('active', 'syncing', 'error', 'disabled')),
      sync_interval integer not null default 3600 check (sync_interval = 0 or sync_interval >= 60),
      recursive     boolean not null default true,
      file_patterns text[] not null default '{}',
      last_sync     timestamptz,
      next_sync     timestamptz,
      last_error    text,
      created_at    timestamptz not null default now(),
      updated_at    timestamptz not null default now()
    )`.execute(db)
  await sql`create index on sources (next_sync) where status = 'active'`.execute(db)
  await sql`alter table documents add foreign key (source_id) references sources (id) on delete set null`.execute(db)
  await sql`
    create table source_files (
      source_id   uuid not null references sources (id) on delete cascade,
      path        text not null,
      etag        text,
      size        bigint,
      modified_at timestamptz,
      sha256      text,
      document_id uuid references documents (id) on delete set null,
      outcome     text not null,
      seen_at     timestamptz not null default now(),
      primary key (source_id, path)
    )`.execute(db)
  await sql`create index on source_files (document_id) where document_id is not null`.execute(db)
}
