import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // The deletion of a document is refused until then. Only ever lengthened.
  await sql`alter table documents add column retain_until timestamptz`.execute(db)
  // Not validated: no row has a value yet, and a scan would hold the lock.
  await sql`alter table documents add constraint documents_retain_until check (isfinite(retain_until)) not valid`.execute(db)
  await sql`create index documents_retain_until on documents (retain_until, id) where retain_until is not null`.execute(db)
  // Views do not follow new columns.
  await sql`create or replace view live_documents as select * from documents where deleted_at is null`.execute(db)
  // Days after its creation for which a document with the label is retained. Scope `creator`: only documents that the label's creator owns.
  await sql`
    alter table labels
      add column retention_days integer constraint labels_retention_days check (retention_days between 1 and 36500),
      add column retention_scope text constraint labels_retention_scope check (retention_scope in ('creator', 'all')),
      add constraint labels_retention check ((retention_days is null) = (retention_scope is null))`.execute(db)

  // A hold keeps its documents until it is released; then it stays as a record.
  await sql`
    create table holds (
      id          uuid primary key default dms_uuidv7(),
      name        text not null,
      name_key    text not null,
      reason      text not null default '',
      created_by  uuid references users (id) on delete set null,
      created_at  timestamptz not null default now(),
      released_at timestamptz
    )`.execute(db)
  await sql`create unique index holds_name_key on holds (name_key) where released_at is null`.execute(db)
  await sql`
    create table hold_documents (
      hold_id     uuid not null references holds (id) on delete cascade,
      document_id uuid not null references documents (id) on delete cascade,
      added_at    timestamptz not null default now(),
      added_by    uuid references users (id) on delete set null,
      primary key (hold_id, document_id)
    )`.execute(db)
  await sql`create index hold_documents_document_id on hold_documents (document_id)`.execute(db)
  await sql`create index hold_documents_added_by on hold_documents (added_by) where added_by is not null`.execute(db)
  await sql`create index holds_created_by on holds (created_by) where created_by is not null`.execute(db)
  await createTriggers(db)
}

/** Refuse what would destroy a document under retention or hold, to every role. SQLSTATE DM001; the detail of a deletion is JSON. */
async function createTriggers(db: Kysely<unknown>): Promise<void> {
  // A fixed search path: a role that may create functions or temporary tables must not replace what the functions call and read.
  const { rows } = await sql<{ path: string }>`select format('pg_catalog, %I, pg_temp', current_schema()) as path`.execute(db)
  const path = sql.raw(rows[0]?.path ?? 'pg_catalog, public, pg_temp')
  const refuse = (what: string) => sql.raw(`raise exception using errcode = 'DM001', message = '${what}'`)

  await sql`
    create function dms_refuse_deletion() returns trigger language plpgsql set search_path = ${path} as $$
      declare document uuid; until timestamptz; names text[];
      begin
        if tg_table_name = 'documents' then
          document := old.id;
          until := old.retain_until;
        else
          document := old.document_id;
          select retain_until into until from documents where id = document;
        end if;
        select array_agg(name order by name_key) into names from hold_documents join holds on holds.id = hold_id
        where document_id = document and released_at is null;
        if until > now() or names is not null then
          raise exception using errcode = 'DM001', message = format('document %s is under retention or hold', document),
            detail = jsonb_strip_nulls(jsonb_build_object('document_id', document, 'holds', names, 'retain_until',
              case when until > now() then to_char(until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') end));
        end if;
        return old;
      end
    $$`.execute(db)
  await sql`create trigger dms_retain before delete on documents for each row execute function dms_refuse_deletion()`.execute(db)
  await sql`create trigger dms_retain before delete on document_versions for each row execute function dms_refuse_deletion()`.execute(db)

  await sql`
    create function dms_refuse_truncate() returns trigger language plpgsql set search_path = ${path} as $$
      begin
        if exists (select from documents where retain_until > now())
          or exists (select from hold_documents join holds on holds.id = hold_id where released_at is null)
        then ${refuse('a document is under retention or hold')}; end if;
        return null;
      end
    $$`.execute(db)
  for (const table of ['documents', 'document_versions', 'holds', 'hold_documents'])
    await sql`create trigger dms_retain_all before truncate on ${sql.table(table)} for each statement execute function dms_refuse_truncate()`.execute(
      db,
    )

  await sql`
    create function dms_refuse_change() returns trigger language plpgsql set search_path = ${path} as $$
      begin raise exception using errcode = 'DM001', message = tg_argv[0]; end
    $$`.execute(db)
  const refuseUpdate = (table: string, columns: string, condition: string, message: string) =>
    sql`create trigger dms_fixed before update of ${sql.raw(columns)} on ${sql.table(table)} for each row when (${sql.raw(condition)})
      execute function dms_refuse_change(${sql.lit(message)})`.execute(db)
  await refuseUpdate(
    'documents',
    'retain_until',
    'old.retain_until is not null and (new.retain_until is null or new.retain_until < old.retain_until)',
    'a retention can only be lengthened',
  )
  await refuseUpdate(
    'document_versions',
    'document_id, number, sha256, size',
    '(old.document_id, old.number, old.sha256, old.size) is distinct from (new.document_id, new.number, new.sha256, new.size)',
    'document, number and file of a version do not change',
  )
  await refuseUpdate(
    'holds',
    'released_at',
    'old.released_at is not null and new.released_at is distinct from old.released_at',
    'a released hold stays released',
  )
  await refuseUpdate(
    'hold_documents',
    'hold_id, document_id',
    '(old.hold_id, old.document_id) is distinct from (new.hold_id, new.document_id)',
    'hold and document of this row do not change',
  )
  await sql`
    create function dms_refuse_hold_deletion() returns trigger language plpgsql set search_path = ${path} as $$
      begin
        if exists (select from hold_documents where hold_id = old.id) then ${refuse('the hold has documents and is not released')}; end if;
        return old;
      end
    $$`.execute(db)
  await sql`
    create trigger dms_retain before delete on holds for each row when (old.released_at is null) execute function dms_refuse_hold_deletion()`.execute(
    db,
  )
}

export const loses = 'retention and holds: documents that had to be kept can be deleted'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop trigger dms_retain on documents`.execute(db)
  await sql`drop trigger dms_retain_all on documents`.execute(db)
  await sql`drop trigger dms_fixed on documents`.execute(db)
  await sql`drop trigger dms_retain on document_versions`.execute(db)
  await sql`drop trigger dms_retain_all on document_versions`.execute(db)
  await sql`drop trigger dms_fixed on document_versions`.execute(db)
  await sql`drop table hold_documents, holds`.execute(db)
  await sql`drop function dms_refuse_deletion(), dms_refuse_truncate(), dms_refuse_change(), dms_refuse_hold_deletion()`.execute(db)
  await sql`alter table labels drop column retention_days, drop column retention_scope`.execute(db)
  await sql`drop view live_documents`.execute(db)
  await sql`alter table documents drop column retain_until`.execute(db)
  await sql`create view live_documents as select * from documents where deleted_at is null`.execute(db)
}
