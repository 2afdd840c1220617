import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Who did what, when and from where. Each hash covers the row and the hash before, so that a changed or deleted row is detected.
  // No reference to users: entries outlive them.
  await sql`
    create table audit_entries (
      seq        bigint primary key,
      at         timestamptz not null,
      actor_id   uuid,
      actor      text not null,
      via        text not null,
      ip         text not null,
      action     text not null,
      target     text not null,
      outcome    text not null check (outcome in ('ok', 'refused', 'failed')),
      code       text,
      details    text not null,
      request_id text not null,
      hash       text not null
    )`.execute(db)
  await sql`create index on audit_entries (actor_id, seq) where actor_id is not null`.execute(db)
  await sql`create index on audit_entries (at)`.execute(db)
  await sql`
    create function dms_audit_append_only() returns trigger language plpgsql as $$
      begin raise exception 'the audit log is only ever added to'; end
    $$`.execute(db)
  await sql`
    create trigger dms_audit_kept before update or delete on audit_entries for each row execute function dms_audit_append_only()`.execute(
    db,
  )
  await sql`
    create trigger dms_audit_whole before truncate on audit_entries for each statement execute function dms_audit_append_only()`.execute(db)
}

export const loses = 'the audit log, all of it (`dms audit export` keeps a copy)'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table audit_entries`.execute(db)
  await sql`drop function dms_audit_append_only()`.execute(db)
}
