import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // One run of a sync, with the id of the job that asked for it. Whoever holds the run writes its `holder` into every change that it makes.
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

  // The run that saw the file last, and since when it is gone. The document of a stored file is null once a user deleted it.
  await sql`alter table source_files add column run_id uuid, add column removed_at timestamptz, drop column seen_at`.execute(db)
  await sql`create index on source_files (source_id, sha256) where sha256 is not null`.execute(db)
  // The tag that a folder had when everything below it was last taken in; `next_etag` is what the run says that goes on.
  await sql`
    create table source_folders (
      source_id uuid not null references sources (id) on delete cascade,
      path      text not null,
      etag      text,
      next_etag text,
      run_id    uuid,
      primary key (source_id, path)
    )`.execute(db)

  // Failed runs since the last good one; what all runs came to, by outcome.
  await sql`alter table sources add column failures integer not null default 0, add column totals jsonb not null default '{}'`.execute(db)
  await sql`drop index sources_next_sync_idx`.execute(db)
  await sql`create index on sources (next_sync) where status in ('active', 'error')`.execute(db)
}

export const loses = 'the history of syncs, what sources remember of files and folders that are gone, and their counts of runs'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop index sources_next_sync_idx`.execute(db)
  await sql`create index on sources (next_sync) where status = 'active'`.execute(db)
  await sql`alter table sources drop column failures, drop column totals`.execute(db)
  await sql`drop table source_folders, source_syncs`.execute(db)
  await sql`drop index source_files_source_id_sha256_idx`.execute(db)
  // What is gone from the source had no row before; left here, it would pass for a file that is there.
  await sql`delete from source_files where removed_at is not null`.execute(db)
  await sql`alter table source_files drop column run_id, drop column removed_at, add column seen_at timestamptz not null default now()`.execute(
    db,
  )
}
