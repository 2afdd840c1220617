import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // `revision` counts all changes of a document and is part of its ETag. `current_version` is the number of the version whose file it shows.
  // `last_version` is the highest number ever given, so that none is given twice.
  await sql`alter table documents rename column version to revision`.execute(db)
  await sql`
    alter table documents add column current_version integer not null default 1, add column last_version integer not null default 1`.execute(
    db,
  )

  // One row per file that a document has had. The text and its state are null for the current version: documents has them.
  await sql`
    create table document_versions (
      document_id    uuid not null references documents (id) on delete cascade,
      number         integer not null constraint document_versions_number check (number > 0),
      sha256         text not null references stored_files (sha256),
      size           bigint not null,
      mime_type      text not null,
      filename       text not null,
      origin         text not null constraint document_versions_origin check (origin in ('upload', 'sync', 'restore', 'edit')),
      created_at     timestamptz not null,
      created_by     uuid references users (id) on delete set null,
      content        text,
      status         text,
      ocr_enabled    boolean,
      language       text,
      ocr_confidence real,
      page_count     integer,
      error_code     text,
      error_message  text,
      processed_at   timestamptz,
      primary key (document_id, number)
    )`.execute(db)
  // Pages of versions that are not current. document_pages has those of the current one.
  await sql`
    create table version_pages (
      document_id   uuid not null,
      number        integer not null,
      page          integer not null,
      text          text not null,
      source        text,
      confidence    real,
      width         real,
      height        real,
      duration      real,
      error_code    text,
      error_message text,
      primary key (document_id, number, page),
      foreign key (document_id, number) references document_versions (document_id, number) on delete cascade
    )`.execute(db)
  await sql`
    insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
    select id, 1, sha256, size, mime_type, filename, case when source_id is null then 'upload' else 'sync' end,
      coalesce(file_replaced_at, created_at)
    from documents`.execute(db)
  await sql`create index document_versions_sha256 on document_versions (sha256)`.execute(db)
  await sql`create index document_versions_created_by on document_versions (created_by) where created_by is not null`.execute(db)
}

export const loses = 'all versions of documents except the current ones'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table version_pages, document_versions`.execute(db)
  await sql`alter table documents drop column current_version, drop column last_version`.execute(db)
  await sql`alter table documents rename column revision to version`.execute(db)
}
