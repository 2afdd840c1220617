import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Every stored file has a place of its own. Removing a file can then never meet the file of a later upload of the same bytes, however late it
  // comes. Addresses become paths: what is no address is refused here, and again by the store.
  await sql`alter table stored_files add column address text`.execute(db)
  await sql`update stored_files set address = sha256`.execute(db)
  await sql`
    alter table stored_files
      alter column address set not null,
      add constraint stored_files_address_key unique (address),
      add constraint stored_files_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
      add constraint stored_files_address_form check (address ~ '^[0-9a-f]{64}(\\.[0-9a-z]{8,32})?$' and left(address, 64) = sha256)`.execute(
    db,
  )
  // documents.sha256 refers to stored_files and needs no check of its own.
  await sql`alter table source_files add constraint source_files_sha256_form check (sha256 ~ '^[0-9a-f]{64}$')`.execute(db)
  // Written in the transaction that made a file unreachable; the file is removed after its commit, and then the row.
  await sql`
    create table file_removals (
      address      text primary key constraint file_removals_address_form check (address ~ '^[0-9a-f]{64}(\\.[0-9a-z]{8,32})?$'),
      requested_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index on file_removals (left(address, 64))`.execute(db)
}

export const loses = 'which stored files were about to be removed; impossible once files were stored with this version'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`do $$ begin
    if exists (select from stored_files where address <> sha256) then
      raise exception 'files were stored under addresses that earlier versions do not know: restore a backup that was made before';
    end if;
  end $$`.execute(db)
  await sql`drop table file_removals`.execute(db)
  await sql`alter table source_files drop constraint source_files_sha256_form`.execute(db)
  await sql`alter table stored_files drop constraint stored_files_sha256_form, drop column address`.execute(db)
}
