import { type Kysely, sql } from 'kysely'

/**
 * Rotates events through three partitions of ten minutes each, as PgQ does: an expired partition is truncated before its turn comes again.
 * The partitions never change, so that no insert can miss its own.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(db)
  const schema = sql.id(rows[0]?.name ?? 'public')
  await sql`alter table events rename to events_of_one_table`.execute(db)
  await sql`alter sequence events_seq_seq rename to events_seq_of_one_table`.execute(db)
  // An identity column of a partitioned table needs PostgreSQL 17.
  await sql`create sequence events_seq_seq`.execute(db)
  await sql`
    create table events (
      seq      bigint not null default nextval('events_seq_seq'),
      type     text not null,
      user_id  uuid references users (id) on delete cascade,
      data     jsonb not null,
      at       timestamptz not null default now(),
      position bigint,
      slot     smallint not null default floor(extract(epoch from now()) / 600)::bigint % 3
    ) partition by list (slot)`.execute(db)
  await sql`alter sequence events_seq_seq owned by events.seq`.execute(db)
  for (const slot of [0, 1, 2])
    await sql`create table ${sql.id(`events_${slot}`)} partition of events for values in (${sql.lit(slot)})`.execute(db)
  // Events of ten minutes at most: few rows.
  await sql`insert into events (seq, type, user_id, data, at, position) select seq, type, user_id, data, at, position from events_of_one_table`.execute(
    db,
  )
  await sql`select setval('events_seq_seq', nextval('events_seq_of_one_table'), false)`.execute(db)
  await sql`drop table events_of_one_table`.execute(db)
  await sql`alter table events add primary key (seq, slot)`.execute(db)
  await sql`create index events_at on events (at)`.execute(db)
  await sql`create index events_position on events (position)`.execute(db)
  await sql`create index events_unordered on events (seq) where position is null`.execute(db)
  // A plan that was made while a partition was empty would scan it when it is full.
  await sql`alter function dms_order_events() set enable_seqscan = off`.execute(db)
  // Runs as the owner of the tables, because TRUNCATE is no right of the application. The search path has no names of the caller.
  await sql`
    create function dms_expire_events(retention interval) returns void language plpgsql security definer
    set search_path = ${schema}, pg_temp set lock_timeout = '50ms' set enable_seqscan = off as $$
      declare
        expired constant timestamptz := now() - retention;
        partition text;
        found_rows boolean;
      begin
        foreach partition in array array['events_0', 'events_1', 'events_2'] loop
          begin
            execute format('select exists (select from %1$I) and not exists (select from %1$I where at >= $1)', partition) into found_rows using expired;
            continue when not found_rows;
            execute format('lock table %I in access exclusive mode', partition);
            -- A late transaction may have added events before the lock.
            execute format('select not exists (select from %1$I where at >= $1)', partition) into found_rows using expired;
            if found_rows then execute format('truncate %I', partition); end if;
          exception when lock_not_available or deadlock_detected then
            -- A long transaction reads it: the next call tries again.
          end;
        end loop;
      end
    $$`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop function dms_expire_events(interval)`.execute(db)
  await sql`alter function dms_order_events() reset enable_seqscan`.execute(db)
  await sql`alter table events rename to events_of_partitions`.execute(db)
  await sql`alter sequence events_seq_seq rename to events_seq_of_partitions`.execute(db)
  await sql`
    create table events (
      seq      bigint generated always as identity,
      type     text not null,
      user_id  uuid references users (id) on delete cascade,
      data     jsonb not null,
      at       timestamptz not null default now(),
      position bigint
    )`.execute(db)
  await sql`
    insert into events overriding system value select seq, type, user_id, data, at, position from events_of_partitions`.execute(db)
  await sql`select setval('events_seq_seq', nextval('events_seq_of_partitions'), false)`.execute(db)
  await sql`drop table events_of_partitions`.execute(db)
  await sql`alter table events add primary key (seq)`.execute(db)
  await sql`create index on events (at)`.execute(db)
  await sql`create unique index events_position on events (position)`.execute(db)
  await sql`create index events_unordered on events (seq) where position is null`.execute(db)
}
