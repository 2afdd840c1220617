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
      finished_at   timestamptz,
      -- the nil UUID: nobody's. Not a reference: it only decides on turns, and jobs outlive documents
      owner_id      uuid not null default '00000000-0000-0000-0000-000000000000'
    ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)`.execute(db)
  await sql`create index jobs_ready on jobs (queue, priority desc, run_at, id) where status = 'pending'`.execute(db)
  await sql`create index jobs_turn on jobs (queue, priority desc, owner_id, run_at, id) where status = 'pending'`.execute(db)
  await sql`create index jobs_next on jobs (kind, priority desc, run_at, id) where status in ('pending', 'processing')`.execute(db)
  await sql`create index jobs_leased on jobs (lease_until) where status = 'processing'`.execute(db)
  await sql`create index jobs_finished on jobs (kind, status, finished_at desc) where status in ('completed', 'failed', 'cancelled')`.execute(
    db,
  )
  await sql`create index jobs_document on jobs (document_id) where document_id is not null`.execute(db)
  await sql`create index jobs_parent on jobs (parent_id) where parent_id is not null`.execute(db)
  await sql`create unique index jobs_dedupe on jobs (dedupe_key) where status = 'pending'`.execute(db)
  // A document has at most one pending or running job that reads it.
  await sql`create unique index jobs_reading on jobs (document_id) where kind in ('ocr', 'extract') and status in ('pending', 'processing')`.execute(
    db,
  )
  // Per statement, not per row: ten thousand jobs in one INSERT wake the workers once.
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
  // The last success of recurring work such as backups, for the metrics of the server.
  await sql`create table runs (name text primary key, last_success_at timestamptz not null)`.execute(db)
  await createClaim(db)
}

async function createClaim(db: Kysely<unknown>): Promise<void> {
  // The owner that was served last. Owners are served in the order of their ids, round robin.
  await sql`create table job_turns (queue text, priority smallint, owner_id uuid not null, primary key (queue, priority))`.execute(db)

  // Each step reads one index entry, so the time does not depend on how many jobs an owner has. Where more than 500 owners in a row have only
  // jobs that cannot run yet, as after an outage, the oldest runnable job is taken. The settings prevent a sequential scan by a cached plan that
  // was made while there were few jobs.
  await sql`
    create function dms_claim_job(in_queue text, in_worker text, in_lease double precision, in_max_running integer) returns setof jobs
    language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
    declare
      nobody constant uuid := '00000000-0000-0000-0000-000000000000';
      level smallint := 32767;
      last uuid;
      seen integer;
      max_seen constant integer := 500;
      candidate uuid;
      next_id uuid;
      is_paused boolean := in_queue = 'ocr' and exists (select from instance where key = 'ocr_paused');
      each_kind text;
    begin
      if in_max_running > 0 then
        perform pg_advisory_xact_lock(hashtext('dms'), hashtext('claim ' || in_queue));
      end if;
      if is_paused then
        foreach each_kind in array array['pages', 'extract'] loop
          select id into next_id from jobs where kind = each_kind and status = 'pending' and run_at <= now()
            order by priority desc, run_at, id limit 1 for update skip locked;
          exit when found;
        end loop;
      else
        <<levels>> loop
          select priority into level from jobs where queue = in_queue and status = 'pending' and priority < level
            order by priority desc limit 1;
          exit when not found;
          perform from jobs where queue = in_queue and status = 'pending' and priority = level and run_at <= now() limit 1;
          continue when not found;
          seen := 0;
          select owner_id into last from job_turns where queue = in_queue and priority = level;
          for lap in 1..2 loop
            candidate := case when lap = 1 then last end;
            continue when lap = 1 and last is null;
            loop
              if candidate is null then
                select owner_id into candidate from jobs where queue = in_queue and status = 'pending' and priority = level
                  and owner_id >= nobody order by owner_id limit 1;
              else
                select owner_id into candidate from jobs where queue = in_queue and status = 'pending' and priority = level
                  and owner_id > candidate order by owner_id limit 1;
              end if;
              exit when not found or (lap = 2 and candidate > last) or seen > max_seen;
              seen := seen + 1;
              -- Documents of a disabled user wait until the user is enabled.
              continue when in_queue = 'ocr' and exists (select from users where id = candidate and disabled);
              continue when in_max_running > 0 and in_max_running <= (
                select count(*) from jobs where queue = in_queue and status = 'processing' and owner_id = candidate);
              select id into next_id from jobs where queue = in_queue and status = 'pending' and priority = level
                and owner_id = candidate and run_at <= now() order by run_at, id limit 1 for update skip locked;
              exit levels when found;
            end loop;
          end loop;
          if seen > max_seen then
            select id, owner_id into next_id, candidate from jobs job
              where queue = in_queue and status = 'pending' and priority = level and run_at <= now()
                and (in_queue <> 'ocr' or not exists (select from users where users.id = job.owner_id and disabled))
                and (in_max_running <= 0 or in_max_running > (
                  select count(*) from jobs other where other.queue = in_queue and other.status = 'processing' and other.owner_id = job.owner_id))
              order by run_at, id limit 1 for update of job skip locked;
            exit levels when found;
          end if;
        end loop;
        if next_id is not null then
          insert into job_turns values (in_queue, level, candidate)
            on conflict (queue, priority) do update set owner_id = excluded.owner_id;
        end if;
      end if;
      if next_id is null then
        return;
      end if;
      return query update jobs set status = 'processing', attempts = attempts + 1, fence = fence + 1, worker = in_worker,
        lease_until = now() + in_lease * interval '1 ms', started_at = now(), error_code = null, error_message = null
        where id = next_id returning *;
    end $$`.execute(db)
}
