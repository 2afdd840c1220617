import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // What the first request under a key asked for. Keys are good for a day; those from before do not tell it, and cannot be compared.
  await sql`delete from idempotency_keys`.execute(db)
  await sql`alter table idempotency_keys add column fingerprint text not null`.execute(db)
}

export const loses = 'the Idempotency-Keys of the last day: a request that is sent again is done again'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`delete from idempotency_keys`.execute(db)
  await sql`alter table idempotency_keys drop column fingerprint`.execute(db)
}
