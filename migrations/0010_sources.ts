import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // failures: failed runs since the last good one. totals: counts of all runs by outcome.
  // A normal user's local folder is read only while the user who granted it is an admin.
  await sql`
    create table sources (
      id                     uuid primary key default dms_uuidv7(),
      owner_id               uuid not null references users (id) on delete cascade,
      name                   text not null,
      type                   text not null check (type in ('webdav', 'local_folder', 's3')),
      url                    text not null,
      credentials            bytea,
      status                 text not null default 'active' check (status in ('active', 'syncing', 'error', 'disabled')),
      sync_interval          integer not null default 3600 check (sync_interval = 0 or sync_interval >= 60),
      recursive              boolean not null default true,
      file_patterns          text[] not null default '{}',
      last_sync              timestamptz,
      next_sync              timestamptz,
      last_error             text,
      failures               integer not null default 0,
      totals                 jsonb not null default '{}',
      granted_by             uuid references users (id) on delete set null,
      is_granted_by_operator boolean not null default false,
      created_at             timestamptz not null default now(),
      updated_at             timestamptz not null default now()
    )`.execute(db)
  await sql`create index on sources (next_sync) where status in ('active', 'error')`.execute(db)
  await sql`alter table documents add foreign key (source_id) references sources (id) on delete set null`.execute(db)

  // run_id: the last run that found the file. removed_at: when it was missing first. document_id is null after a user deleted the document.
  await sql`
    create table source_files (
      source_id   uuid not null references sources (id) on delete cascade,
      path        text not null,
      etag        text,
      size        bigint,
      modified_at timestamptz,
      sha256      text constraint source_files_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
      document_id uuid references documents (id) on delete set null,
      outcome     text not null,
      run_id      uuid,
      removed_at  timestamptz,
      primary key (source_id, path)
    )`.execute(db)
  await sql`create index on source_files (document_id) where document_id is not null`.execute(db)
  await sql`create index on source_files (source_id, sha256) where sha256 is not null`.execute(db)
  // etag: of the folder when everything below it was last synced. next_etag: as seen by the current run.
  await sql`
    create table source_folders (
      source_id uuid not null references sources (id) on delete cascade,
      path      text not null,
      etag      text,
      next_etag text,
      run_id    uuid,
      primary key (source_id, path)
    )`.execute(db)

  // One row per run, with the id of the job that requested it. `holder` is the fencing token of every change that the run makes.
  await sql`
    create table source_syncs (
      id            uuid primary key default dms_uuidv7(),
      source_id     uuid not null references sources (id) on delete cascade,
      holder        uuid not null,
      state         text not null default 'running' check (state in ('running', 'completed', 'failed', 'cancelled')),
      total         integer not null default 0,
      created       integer not null default 0,
      updated       integer not null default 0,
      unchanged     integer not null default 0,
      skipped       integer not null default 0,
      failed        integer not null default 0,
      removed       integer not null default 0,
      bytes         bigint not null default 0,
      current_file  text,
      errors        jsonb not null default '[]',
      error_code    text,
      error_message text,
      started_at    timestamptz not null default now(),
      finished_at   timestamptz
    )`.execute(db)
  await sql`create index on source_syncs (source_id, started_at desc, id desc)`.execute(db)
}
