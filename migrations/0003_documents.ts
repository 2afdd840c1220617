import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Facts about this installation, such as the id of its document store.
  await sql`create table instance (key text primary key, value text not null)`.execute(db)
  // Uploads and removals of equal bytes lock the row of their SHA-256. The address is unique per upload, so that a late removal never meets the
  // file of a later upload. Addresses become paths: their form is checked here and again by the file store.
  await sql`
    create table stored_files (
      sha256     text primary key constraint stored_files_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
      size       bigint not null,
      address    text not null unique,
      created_at timestamptz not null default now(),
      constraint stored_files_address_form check (address ~ '^[0-9a-f]{64}(\\.[0-9a-z]{8,32})?$' and left(address, 64) = sha256)
    )`.execute(db)
  // Inserted by the transaction that makes a file unreachable. The file is removed after the commit, then the row is deleted.
  await sql`
    create table file_removals (
      address      text primary key constraint file_removals_address_form check (address ~ '^[0-9a-f]{64}(\\.[0-9a-z]{8,32})?$'),
      requested_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index on file_removals (left(address, 64))`.execute(db)

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
      processed_at   timestamptz,
      -- null: the file is as old as the document
      file_replaced_at timestamptz
    )`.execute(db)
  await sql`create index on documents (owner_id, created_at desc, id desc)`.execute(db)
  await sql`create index on documents (created_at desc, id desc)`.execute(db)
  await sql`create index on documents (sha256, owner_id)`.execute(db)
  await sql`create index on documents (source_id) where source_id is not null`.execute(db)
  await sql`create index on documents (duplicate_of) where duplicate_of is not null`.execute(db)
  await sql`create index on documents (status) where status <> 'completed'`.execute(db)

  // One row per page. A page without a source is not read yet; a retry continues there.
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
  // The fingerprint identifies the request that used the key first.
  await sql`
    create table idempotency_keys (
      caller      text not null,
      key         text not null,
      fingerprint text not null,
      status      integer,
      answer      jsonb,
      created_at  timestamptz not null default now(),
      primary key (caller, key)
    )`.execute(db)
  await sql`create index on idempotency_keys (created_at)`.execute(db)
}
