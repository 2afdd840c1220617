import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Kept for ten minutes, for clients that come back and ask what they missed.
  await sql`
    create table events (
      seq     bigint generated always as identity primary key,
      type    text not null,
      user_id uuid references users (id) on delete cascade,
      data    jsonb not null,
      at      timestamptz not null default now()
    )`.execute(db)
  await sql`create index on events (at)`.execute(db)
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
  // The number of unread notifications is asked for with every page of them.
  await sql`create index on notifications (user_id) where read_at is null`.execute(db)
}
