import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Who was handed a file a short while ago, and may come back for the rest of it.
  await sql`
    create table shared_link_views (
      link_id uuid not null references shared_links (id) on delete cascade,
      client  text not null,
      at      timestamptz not null,
      primary key (link_id, client)
    )`.execute(db)
  await sql`create index on shared_link_views (at)`.execute(db)
}
