import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table shared_links (
      id            uuid primary key default dms_uuidv7(),
      document_id   uuid not null references documents (id) on delete cascade,
      created_by    uuid not null references users (id) on delete cascade,
      token         text not null unique,
      password_hash text,
      expires_at    timestamptz,
      max_views     integer check (max_views > 0),
      view_count    integer not null default 0,
      revoked_at    timestamptz,
      created_at    timestamptz not null default now()
    )`.execute(db)
  await sql`create index on shared_links (document_id)`.execute(db)
  await sql`create index on shared_links (created_by, created_at desc, id desc)`.execute(db)

  // Clients that fetched a file recently: their range requests for the rest count as the same view.
  await sql`
    create table shared_link_views (
      link_id uuid not null references shared_links (id) on delete cascade,
      client  text not null,
      at      timestamptz not null,
      primary key (link_id, client)
    )`.execute(db)
  await sql`create index on shared_link_views (at)`.execute(db)
}
