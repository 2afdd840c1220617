import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Server processes that run, and what they have open. A silent one is dead, and its places with it.
  await sql`
    create table servers (
      id               uuid primary key,
      http_connections integer not null default 0,
      ws_connections   integer not null default 0,
      seen_at          timestamptz not null default now()
    )`.execute(db)
  await sql`
    create table live_places (
      id        uuid primary key,
      user_id   uuid not null references users (id) on delete cascade,
      server_id uuid not null references servers (id) on delete cascade,
      taken_at  timestamptz not null default now()
    )`.execute(db)
  await sql`create index on live_places (user_id)`.execute(db)
  await sql`create index on live_places (server_id)`.execute(db)

  // Transactions commit in another order than they draw numbers in. A position is given after the commit, under a lock that is held until it
  // can be seen: whoever has read up to one never finds a lower one later.
  await sql`alter table events add column position bigint`.execute(db)
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

  // What the queue was like when subscribers were last told, for everybody ('all') and for each user; 'at': when it was looked at.
  await sql`
    create table queue_counts (
      key        text primary key,
      user_id    uuid references users (id) on delete cascade,
      pending    integer not null default 0,
      processing integer not null default 0,
      completed  integer not null default 0,
      at         timestamptz not null default now()
    )`.execute(db)
  await sql`insert into queue_counts (key, at) values ('all', 'epoch')`.execute(db)
  await sql`
    create function dms_queue_notify() returns trigger language plpgsql as $$
      begin perform pg_notify('dms_live', 'queue'); return null; end
    $$`.execute(db)
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

  // Whoever serves somebody's connection hears when that user's rights change, wherever and by whatever they are changed.
  await sql`
    create function dms_session_notify() returns trigger language plpgsql as $$
      begin
        perform pg_notify('dms_live', 'session:' || (case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end ->> tg_argv[0]));
        return null;
      end
    $$`.execute(db)
  await sql`
    create trigger dms_token_revoked after insert on revoked_tokens for each row execute function dms_session_notify('user_id')`.execute(db)
  await sql`
    create trigger dms_user_changed after update on users for each row
      when (new.role <> old.role or new.disabled <> old.disabled or new.token_version <> old.token_version)
      execute function dms_session_notify('id')`.execute(db)
  await sql`create trigger dms_user_deleted after delete on users for each row execute function dms_session_notify('id')`.execute(db)
}
