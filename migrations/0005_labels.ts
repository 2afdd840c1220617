import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table labels (
      id          uuid primary key default dms_uuidv7(),
      name        text not null,
      name_key    text not null unique,
      color       text not null,
      description text not null default '',
      created_by  uuid references users (id) on delete set null,
      created_at  timestamptz not null default now(),
      updated_at  timestamptz not null default now()
    )`.execute(db)
  await sql`
    create table document_labels (
      document_id uuid not null references documents (id) on delete cascade,
      label_id    uuid not null references labels (id) on delete cascade,
      primary key (document_id, label_id)
    )`.execute(db)
  await sql`create index on document_labels (label_id)`.execute(db)
}
