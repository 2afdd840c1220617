import { type Kysely, sql } from 'kysely'

/** Appends to the audit log with one statement, if the caller knows the last entry. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create function dms_append_audit(entries jsonb, inout seq bigint, inout hash text) language plpgsql as $$
      #variable_conflict use_column
      declare
        head record;
      begin
        -- Serializes writers of all processes: each entry includes the hash of the one before.
        perform pg_advisory_xact_lock(hashtextextended('dms_audit', 0));
        -- A new snapshot: it has the entries of the writer before.
        select last.seq, last.hash into head from audit_entries last order by last.seq desc limit 1;
        if coalesce(head.seq, 0) = dms_append_audit.seq and coalesce(head.hash, repeat('0', 64)) = dms_append_audit.hash then
          insert into audit_entries select * from jsonb_populate_recordset(null::audit_entries, entries);
          select last.seq, last.hash into head from audit_entries last order by last.seq desc limit 1;
        end if;
        dms_append_audit.seq := coalesce(head.seq, 0);
        dms_append_audit.hash := coalesce(head.hash, repeat('0', 64));
      end
    $$`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop function dms_append_audit(jsonb, bigint, text)`.execute(db)
}
