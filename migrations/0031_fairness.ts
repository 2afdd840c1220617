import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // A folder of the server that belongs to a normal user is read only as long as whoever gave it to them is an admin.
  await sql`
    alter table sources add column granted_by uuid references users (id) on delete set null,
      add column is_granted_by_operator boolean not null default false`.execute(db)

  // Whose work a job is; the nil UUID: nobody's. Not a reference: it decides on turns only, and jobs outlive documents.
  await sql`alter table jobs add column owner_id uuid not null default '00000000-0000-0000-0000-000000000000'`.execute(db)
  await sql`update jobs set owner_id = documents.owner_id from documents where jobs.status in ('pending', 'processing')
    and documents.id = coalesce(jobs.document_id, case when jobs.kind = 'index' then (jobs.payload ->> 'document_id')::uuid end)`.execute(
    db,
  )
  await sql`update jobs set owner_id = sources.owner_id from sources where jobs.status in ('pending', 'processing')
    and jobs.kind = 'sync' and sources.id = (jobs.payload ->> 'source_id')::uuid`.execute(db)
  await sql`create index jobs_turn on jobs (queue, priority desc, owner_id, run_at, id) where status = 'pending'`.execute(db)
  // Who was served last. Owners are served in the order of their ids, from here on and round again.
  await sql`create table job_turns (queue text, priority smallint, owner_id uuid not null, primary key (queue, priority))`.execute(db)

  // Each step reads one entry of an index, so the time does not depend on how many jobs an owner has. Where hundreds of owners in a row have
  // only jobs that cannot run yet, as after an outage, the oldest job that can is taken. The settings keep a plan that was made while there were
  // few jobs from reading all of them later.
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

export const loses = 'by whom users were given folders of the server, and whose turn it is in the queues'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop function dms_claim_job(text, text, double precision, integer)`.execute(db)
  await sql`drop table job_turns`.execute(db)
  await sql`drop index jobs_turn`.execute(db)
  await sql`alter table jobs drop column owner_id`.execute(db)
  await sql`alter table sources drop column granted_by, drop column is_granted_by_operator`.execute(db)
}
