import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Events are kept for ten minutes, for clients that reconnect and ask for the events since. Transactions commit in another order than they draw
  // `seq`. `position` is assigned after the commit, under a lock that is held until it is visible: no lower position appears later.
  await sql`
    create table events (
      seq      bigint generated always as identity primary key,
      type     text not null,
      user_id  uuid references users (id) on delete cascade,
      data     jsonb not null,
      at       timestamptz not null default now(),
      position bigint
    )`.execute(db)
  await sql`create index on events (at)`.execute(db)
  await sql`create unique index events_position on events (position)`.execute(db)
  await sql`create index events_unordered on events (seq) where position is null`.execute(db)
  await sql`create sequence events_positions`.execute(db)
  await sql`
    create function dms_order_events() returns void language plpgsql as $$
      begin
        if not exists (select from events where position is null) then return; end if;
        perform pg_advisory_xact_lock(hashtextextended('dms_order_events', 0));
        with fresh as materialized (select seq from events where position is null order by seq for update skip locked),
          numbered as materialized (select seq, nextval('events_positions') as position from fresh)
        update events set position = numbered.position from numbered where events.seq = numbered.seq;
      end
    $$`.execute(db)

  await sql`
    create table notifications (
      id         uuid primary key default dms_uuidv7(),
      user_id    uuid not null references users (id) on delete cascade,
      type       text not null,
      title      text not null,
      message    text not null,
      data       jsonb not null default '{}',
      read_at    timestamptz,
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index on notifications (user_id, created_at desc, id desc)`.execute(db)
  // Every page of notifications carries the number of unread ones.
  await sql`create index on notifications (user_id) where read_at is null`.execute(db)
}
