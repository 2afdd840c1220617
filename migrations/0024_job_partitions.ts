import { type Kysely, sql } from 'kysely'

/**
 * Partitions jobs by status: those to do in one small table, failed and cancelled ones in another, completed ones by week.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const claim = await takeClaim(db)
  await sql`alter table jobs rename to jobs_of_one_table`.execute(db)
  await sql`create table jobs (like jobs_of_one_table including defaults including constraints) partition by list (status)`.execute(db)
  await sql`
    create table jobs_live partition of jobs for values in ('pending', 'processing')
    with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)`.execute(db)
  await sql`create table jobs_failed partition of jobs for values in ('failed', 'cancelled')`.execute(db)
  await sql`create table jobs_completed partition of jobs for values in ('completed') partition by range (finished_at)`.execute(db)
  // Jobs of weeks without a partition, as after a restore.
  await sql`create table jobs_completed_other partition of jobs_completed default`.execute(db)
  await createWeekFunctions(db)
  await sql`
    select dms_add_job_weeks(greatest(coalesce(min(finished_at), now()), now() - interval '12 weeks'), now() + interval '4 weeks')
    from jobs_of_one_table where status = 'completed'`.execute(db)
  await sql`insert into jobs select * from jobs_of_one_table`.execute(db)
  await sql`drop table jobs_of_one_table`.execute(db)
  await createIndexes(db)
  await createTriggers(db)
  await sql`create trigger dms_jobs_notify after insert on jobs_live for each statement execute function dms_jobs_notify()`.execute(db)
  // No foreign key: it would lock documents whenever a week is added or dropped.
  await sql`
    create function dms_delete_completed_jobs() returns trigger language plpgsql as $$
      begin
        delete from jobs_completed where document_id in (select id from deleted);
        return null;
      end
    $$`.execute(db)
  await sql`
    create trigger dms_delete_completed_jobs after delete on documents referencing old table as deleted
    for each statement execute function dms_delete_completed_jobs()`.execute(db)
  await sql.raw(claim).execute(db)
  await sql`analyze jobs`.execute(db)
}

/** Drops the function that leases jobs, which depends on the table. Returns the statement that creates it again. */
async function takeClaim(db: Kysely<unknown>): Promise<string> {
  const { rows } = await sql<{ statement: string }>`select pg_get_functiondef('dms_claim_job'::regproc) as statement`.execute(db)
  await sql`drop function dms_claim_job`.execute(db)
  return rows[0]?.statement ?? ''
}

async function createIndexes(db: Kysely<unknown>): Promise<void> {
  await sql`alter table jobs_live add primary key (id)`.execute(db)
  await sql`alter table jobs_live add foreign key (document_id) references documents (id) on delete cascade`.execute(db)
  await sql`create index jobs_ready on jobs_live (queue, priority desc, run_at, id) where status = 'pending'`.execute(db)
  await sql`create index jobs_turn on jobs_live (queue, priority desc, owner_id, run_at, id) where status = 'pending'`.execute(db)
  await sql`create index jobs_next on jobs_live (kind, priority desc, run_at, id)`.execute(db)
  // Leases are renewed often: without lease_until in an index, only the row is written.
  await sql`create index jobs_leased on jobs_live (id) where status = 'processing'`.execute(db)
  await sql`create index jobs_document on jobs_live (document_id) where document_id is not null`.execute(db)
  await sql`create index jobs_parent on jobs_live (parent_id) where parent_id is not null`.execute(db)
  await sql`create unique index jobs_dedupe on jobs_live (dedupe_key) where status = 'pending'`.execute(db)
  await sql`create unique index jobs_reading on jobs_live (document_id) where kind in ('ocr', 'extract')`.execute(db)
  await sql`alter table jobs_failed add primary key (id)`.execute(db)
  await sql`alter table jobs_failed add foreign key (document_id) references documents (id) on delete cascade`.execute(db)
  for (const table of ['jobs_failed', 'jobs_completed']) {
    await sql`create index on ${sql.table(table)} (kind, finished_at)`.execute(db)
    await sql`create index on ${sql.table(table)} (document_id) where document_id is not null`.execute(db)
  }
  await sql`create index on jobs_completed (id)`.execute(db)
}

async function createTriggers(db: Kysely<unknown>): Promise<void> {
  await sql`create trigger dms_jobs_notify after insert on jobs for each statement execute function dms_jobs_notify()`.execute(db)
  await sql`
    create trigger dms_queue_inserted after insert on jobs for each row when (new.kind = 'ocr') execute function dms_queue_notify()`.execute(
    db,
  )
  await sql`
    create trigger dms_queue_changed after update of status on jobs for each row when (new.kind = 'ocr' and new.status <> old.status)
      execute function dms_queue_notify()`.execute(db)
  await sql`
    create trigger dms_queue_deleted after delete on jobs for each row when (old.kind = 'ocr') execute function dms_queue_notify()`.execute(
    db,
  )
}

/** They run as the owner of the tables, because the application creates and drops none. The search path has no names of the caller. */
async function createWeekFunctions(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(db)
  const settings = sql`security definer set search_path = ${sql.id(rows[0]?.name ?? 'public')}, pg_temp
    set timezone = 'UTC' set lock_timeout = '100ms'`
  // Several processes may call it at once. A week that cannot be locked is added by a later call; its jobs go to jobs_completed_other meanwhile.
  await sql`
    create function dms_add_job_weeks(first timestamptz, last timestamptz) returns void language plpgsql ${settings} as $$
      declare
        week timestamptz := date_trunc('week', coalesce(first, last));
        partition text;
      begin
        while week <= last loop
          partition := 'jobs_completed_' || to_char(week, 'IYYY"w"IW');
          if to_regclass(quote_ident(partition)) is null then
            begin
              perform pg_advisory_xact_lock(hashtext('dms'), hashtext('job weeks'));
              execute format('create table %I (like jobs_completed including defaults including constraints)', partition);
              execute format('alter table jobs_completed attach partition %I for values from (%L) to (%L)', partition, week, week + interval '7 days');
            exception when lock_not_available or duplicate_table or check_violation then
            end;
          end if;
          week := week + interval '7 days';
        end loop;
      end
    $$`.execute(db)
  await sql`
    create function dms_drop_job_weeks(ended timestamptz, is_dry_run boolean) returns bigint language plpgsql ${settings} as $$
      declare
        partition regclass;
        count bigint;
        total bigint := 0;
      begin
        for partition in
          select inhrelid from pg_inherits join pg_class on pg_class.oid = inhrelid
          where inhparent = 'jobs_completed'::regclass and relname ~ '^jobs_completed_[0-9]{4}w[0-9]{2}$'
            and to_timestamp(right(relname, 7), 'IYYY"w"IW') + interval '7 days' <= ended
        loop
          execute format('select count(*) from %s', partition) into count;
          for attempt in 1..10 loop
            begin
              if not is_dry_run then execute format('drop table %s', partition); end if;
              total := total + count;
              exit;
            exception when lock_not_available then
              perform pg_sleep(0.1);
            end;
          end loop;
        end loop;
        return total;
      end
    $$`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  const claim = await takeClaim(db)
  await sql`drop trigger dms_delete_completed_jobs on documents`.execute(db)
  await sql`drop function dms_delete_completed_jobs, dms_add_job_weeks, dms_drop_job_weeks`.execute(db)
  await sql`alter table jobs rename to jobs_of_partitions`.execute(db)
  await sql`
    create table jobs (like jobs_of_partitions including defaults including constraints)
    with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)`.execute(db)
  await sql`insert into jobs select * from jobs_of_partitions`.execute(db)
  await sql`drop table jobs_of_partitions`.execute(db)
  await sql`update jobs set parent_id = null where parent_id is not null and not exists (select from jobs parent where parent.id = jobs.parent_id)`.execute(
    db,
  )
  await sql`alter table jobs add primary key (id)`.execute(db)
  await sql`
    alter table jobs add foreign key (document_id) references documents (id) on delete cascade,
      add foreign key (parent_id) references jobs (id) on delete cascade`.execute(db)
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
  await sql`create unique index jobs_reading on jobs (document_id) where kind in ('ocr', 'extract') and status in ('pending', 'processing')`.execute(
    db,
  )
  await createTriggers(db)
  await sql.raw(claim).execute(db)
}
