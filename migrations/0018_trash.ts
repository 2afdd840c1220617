import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // A document with deleted_at is in the trash: its owner and admins see it there, nobody else anywhere.
  await sql`
    alter table documents add column deleted_at timestamptz, add column deleted_by uuid references users (id) on delete set null`.execute(
    db,
  )
  await sql`create view live_documents as select * from documents where deleted_at is null`.execute(db)
  await sql`create index documents_trash on documents (owner_id, deleted_at desc, id desc) where deleted_at is not null`.execute(db)
  await sql`create index documents_trash_expiry on documents (deleted_at) where deleted_at is not null`.execute(db)
  // Lists pass over the trash at no cost.
  await sql`create index documents_live_owner on documents (owner_id, created_at desc, id desc) where deleted_at is null`.execute(db)
  await sql`create index documents_live on documents (created_at desc, id desc) where deleted_at is null`.execute(db)
  await sql`drop index documents_owner_id_created_at_id_idx, documents_created_at_id_idx`.execute(db)
  // Removes the index entry with the document, so that searches do not count it.
  await sql`
    create trigger dms_search_forget_trashed after update of deleted_at on documents for each row
    when (new.deleted_at is not null and old.deleted_at is null) execute function dms_search_forget()`.execute(db)
}

export const loses = 'the trash: its documents are restored'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop trigger dms_search_forget_trashed on documents`.execute(db)
  await sql`create index documents_owner_id_created_at_id_idx on documents (owner_id, created_at desc, id desc)`.execute(db)
  await sql`create index documents_created_at_id_idx on documents (created_at desc, id desc)`.execute(db)
  await sql`drop view live_documents`.execute(db)
  await sql`alter table documents drop column deleted_at, drop column deleted_by`.execute(db)
}
