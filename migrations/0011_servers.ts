import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Running server processes and their open connections. A server without a heartbeat is dead, and its slots are free.
  await sql`
    create table servers (
      id               uuid primary key,
      http_connections integer not null default 0,
      ws_connections   integer not null default 0,
      started_at       timestamptz not null default now(),
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

  // The OCR queue as last sent to subscribers, for everybody ('all') and for each user; 'at' is the time of the last check.
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
}
