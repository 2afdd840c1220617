import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table jobs (
      id            uuid primary key default dms_uuidv7(),
      kind          text not null,
      queue         text not null,
      status        text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed', 'cancelled')),
      priority      smallint not null default 50,
      run_at        timestamptz not null default now(),
      attempts      integer not null default 0,
      max_attempts  integer not null default 3,
      payload       jsonb not null default '{}',
      document_id   uuid references documents (id) on delete cascade,
      parent_id     uuid references jobs (id) on delete cascade,
      dedupe_key    text,
      fence         bigint not null default 0,
      worker        text,
      lease_until   timestamptz,
      pages_done    integer not null default 0,
      pages_total   integer,
      error_code    text,
      error_message text,
      created_at    timestamptz not null default now(),
      started_at    timestamptz,
      finished_at   timestamptz
    ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)`.execute(db)
  await sql`create index jobs_ready on jobs (queue, priority desc, run_at, id) where status = 'pending'`.execute(db)
  await sql`create index jobs_next on jobs (kind, priority desc, run_at, id) where status in ('pending', 'processing')`.execute(db)
  await sql`create index jobs_leased on jobs (lease_until) where status = 'processing'`.execute(db)
  await sql`create index jobs_finished on jobs (kind, status, finished_at desc) where status in ('completed', 'failed', 'cancelled')`.execute(
    db,
  )
  await sql`create index jobs_document on jobs (document_id) where document_id is not null`.execute(db)
  await sql`create index jobs_parent on jobs (parent_id) where parent_id is not null`.execute(db)
  await sql`create unique index jobs_dedupe on jobs (dedupe_key) where status = 'pending'`.execute(db)
  // A document is read by one job at a time, waiting or running.
  await sql`create unique index jobs_reading on jobs (document_id) where kind in ('ocr', 'extract') and status in ('pending', 'processing')`.execute(
    db,
  )
  // Once per statement, not per row: ten thousand jobs in one INSERT wake the workers once.
  await sql`
    create function dms_jobs_notify() returns trigger language plpgsql as $$
      begin perform pg_notify('dms_jobs', 'ready'); return null; end
    $$`.execute(db)
  await sql`create trigger dms_jobs_notify after insert on jobs for each statement execute function dms_jobs_notify()`.execute(db)
  await sql`
    create table workers (
      name       text primary key,
      queues     text[] not null,
      started_at timestamptz not null default now(),
      seen_at    timestamptz not null default now()
    )`.execute(db)
}
