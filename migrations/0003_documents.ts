import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // What this database is, said once: the id of its document store.
  await sql`create table instance (key text primary key, value text not null)`.execute(db)
  // A row here is what uploads and removals of the same bytes lock, so that neither can cross the other.
  await sql`
    create table stored_files (
      sha256     text primary key,
      size       bigint not null,
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`
    create table documents (
      id             uuid primary key default dms_uuidv7(),
      owner_id       uuid not null references users (id),
      title          text not null,
      filename       text not null,
      content        text not null default '',
      status         text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
      mime_type      text not null,
      size           bigint not null,
      sha256         text not null references stored_files (sha256),
      ocr_enabled    boolean not null default true,
      language       text not null,
      ocr_confidence real,
      page_count     integer,
      metadata       jsonb not null default '{}',
      error_code     text,
      error_message  text,
      duplicate_of   uuid references documents (id) on delete set null,
      source_id      uuid,
      source_path    text,
      version        integer not null default 1,
      created_at     timestamptz not null default now(),
      updated_at     timestamptz not null default now(),
      processed_at   timestamptz
    )`.execute(db)
  await sql`create index on documents (owner_id, created_at desc, id desc)`.execute(db)
  await sql`create index on documents (created_at desc, id desc)`.execute(db)
  await sql`create index on documents (sha256, owner_id)`.execute(db)
  await sql`create index on documents (source_id) where source_id is not null`.execute(db)
  await sql`create index on documents (duplicate_of) where duplicate_of is not null`.execute(db)
  await sql`create index on documents (status) where status <> 'completed'`.execute(db)

  // One row per page. A row without source is work left: a retry goes on at the first of them.
  await sql`
    create table document_pages (
      document_id   uuid not null references documents (id) on delete cascade,
      page          integer not null,
      text          text not null default '',
      source        text check (source in ('text_layer', 'ocr', 'empty')),
      confidence    real,
      width         real,
      height        real,
      duration      real,
      claim         uuid,
      claimed_until timestamptz,
      error_code    text,
      error_message text,
      primary key (document_id, page)
    )`.execute(db)
  await sql`
    create table idempotency_keys (
      caller     text not null,
      key        text not null,
      status     integer,
      answer     jsonb,
      created_at timestamptz not null default now(),
      primary key (caller, key)
    )`.execute(db)
  await sql`create index on idempotency_keys (created_at)`.execute(db)
}
