import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Constant defaults and nullable columns: no row is rewritten. text_source null: not read yet, or read by an earlier release.
  await sql`
    alter table documents
      add column text_source text,
      add column warnings jsonb not null default '[]',
      add column detected_languages text[] not null default '{}',
      add column split text,
      add column split_from uuid`.execute(db)
  // Not validated: no row has a value yet, and a scan would hold the lock.
  await sql`
    alter table documents
      add constraint documents_text_source check (text_source in ('text_layer', 'ocr', 'mixed', 'empty', 'none')) not valid,
      add constraint documents_split check (split in ('blank', 'barcode')) not valid,
      add constraint documents_split_from_fkey foreign key (split_from) references documents (id) on delete set null not valid`.execute(db)
  await sql`alter table sources add column split text constraint sources_split check (split in ('none', 'blank', 'barcode'))`.execute(db)
  await sql`create index documents_split_from on documents (split_from) where split_from is not null`.execute(db)
  await sql`create index documents_without_text on documents (text_source) where text_source in ('empty', 'none')`.execute(db)
  // Views do not follow new columns.
  await sql`create or replace view live_documents as select * from documents where deleted_at is null`.execute(db)
  // Null for the current version, whose values are in documents.
  await sql`
    alter table document_versions add column text_source text, add column warnings jsonb, add column detected_languages text[]`.execute(db)
  await sql`alter table document_pages add column language text`.execute(db)
  await sql`alter table version_pages add column language text`.execute(db)

  // Words of OCR: a JSON array of [text, confidence 0 to 100, left, top, width, height], the box in 1/10000 of the width and height of the page.
  // The angle is the skew of the page in degrees. Never changed: a page that is read again gets a new row.
  await sql`
    create table page_words (
      document_id uuid not null,
      number      integer not null,
      page        integer not null,
      words       json not null,
      angle       real not null default 0,
      primary key (document_id, number, page),
      foreign key (document_id, number) references document_versions (document_id, number) on delete cascade
    )`.execute(db)
  // A file made from a version, such as a searchable PDF/A. Refused: the version cannot be converted, for the reason in error_message.
  await sql`
    create table renditions (
      document_id   uuid not null,
      number        integer not null,
      kind          text not null check (kind in ('pdfa')),
      state         text not null default 'pending' check (state in ('pending', 'completed', 'failed', 'refused')),
      sha256        text references stored_files (sha256),
      size          bigint,
      error_code    text,
      error_message text,
      created_at    timestamptz not null default now(),
      finished_at   timestamptz,
      primary key (document_id, number, kind),
      foreign key (document_id, number) references document_versions (document_id, number) on delete cascade,
      constraint renditions_file check ((state = 'completed') = (sha256 is not null) and (sha256 is null) = (size is null))
    )`.execute(db)
  await sql`create index renditions_sha256 on renditions (sha256) where sha256 is not null`.execute(db)
  await sql`create index renditions_state on renditions (kind, state, created_at)`.execute(db)
}

export const loses =
  'text sources, renditions, positions of words, detected languages, warnings, and the links from parts of split documents to their originals'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table renditions, page_words`.execute(db)
  await sql`alter table version_pages drop column language`.execute(db)
  await sql`alter table document_pages drop column language`.execute(db)
  await sql`
    alter table document_versions drop column text_source, drop column warnings, drop column detected_languages`.execute(db)
  await sql`drop view live_documents`.execute(db)
  await sql`
    alter table documents
      drop column text_source, drop column warnings, drop column detected_languages, drop column split, drop column split_from`.execute(db)
  await sql`alter table sources drop column split`.execute(db)
  await sql`create view live_documents as select * from documents where deleted_at is null`.execute(db)
}
