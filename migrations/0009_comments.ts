import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table comments (
      id          uuid primary key default dms_uuidv7(),
      document_id uuid not null references documents (id) on delete cascade,
      parent_id   uuid references comments (id) on delete cascade,
      user_id     uuid not null references users (id) on delete cascade,
      content     text not null,
      is_edited   boolean not null default false,
      created_at  timestamptz not null default now(),
      updated_at  timestamptz not null default now()
    )`.execute(db)
  await sql`create index on comments (document_id, created_at desc, id desc) where parent_id is null`.execute(db)
  await sql`create index on comments (parent_id, created_at, id) where parent_id is not null`.execute(db)
  // For counting the comments of a document, and for deleting one: both include replies.
  await sql`create index on comments (document_id)`.execute(db)
}
