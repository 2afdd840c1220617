/** Audit log: an append-only table whose entries form a hash chain. */
import { hash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { afterMillisecond } from '../db/clock.ts'
import { keyset } from '../db/keyset.ts'
import { type Db, isUniqueViolation, type Trx } from '../db/pool.ts'
import { prepared } from '../db/pooled.ts'
import type { Row } from '../db/schema.ts'
import type { Code } from '../errors.ts'
import { type FetchedPage, fetchSlice, fetchWhole } from '../http/pages.ts'
import { slicesOf } from '../slices.ts'

export type Entry = Row<'audit_entries'>

/**
 * An audit entry before append() adds its number and hash. `actor`: user name, `operator` or `anonymous`. `via`: `api`, or `cli:` and the operating
 * system user. `action`: a route as `PUT /api/users/:id`, or a command as `dms restore`. `target`: `id=…`. `code`: error code of a refused or failed
 * action.
 */
export type NewEntry = Omit<Entry, 'seq' | 'hash' | 'details'> & { code: Code | null; details: Record<string, unknown> }

/** Last entry of the chain at some time. */
export interface Head {
  seq: number
  hash: string
}

export interface Verification {
  /** number of entries verified */
  entries: number
  /** end of the chain; store it elsewhere and pass it to the next verification */
  head: Head | null
  /** first entry that is changed or missing */
  problem: { seq: number; message: string } | null
}

/** Stands before the first entry. */
const genesis: Head = { seq: 0, hash: '0'.repeat(64) }

/** Entries read or written by one statement. */
const batchSize = 1000

/** Appends entries in this order. They are durable when the promise resolves. */
export type Append = (entries: readonly NewEntry[]) => Promise<void>

/** Opens the log for appending. While only this process appends entries, one statement is enough. */
export function openAuditLog({ db }: Pick<App, 'db'>): Append {
  /** the last entry, if this process appended it */
  let head: Head | null = null
  return async (entries) => {
    if (entries.length === 0) return
    head = (head && (await appendAfter(db, head, entries))) ?? (await db.transaction().execute((trx) => appendWith(trx, entries)))
  }
}

/**
 * Appends entries as part of a transaction. All other writers of the log wait until it ends, so call it last: a transaction that takes another lock
 * afterwards can deadlock. Returns the last entry of the log.
 */
export async function appendWith(trx: Trx, entries: readonly NewEntry[]): Promise<Head> {
  await sql`select ${lock}`.execute(trx)
  const head = (await trx.selectFrom('audit_entries').select(['seq', 'hash']).orderBy('seq', 'desc').limit(1).executeTakeFirst()) ?? genesis
  const { rows, last } = chain(head, entries)
  // The deletion of a user may have a million entries, and PostgreSQL limits an array to 256 MB.
  for (const some of slicesOf(rows, batchSize)) await sql`insert into audit_entries select * from ${recordsOf(some)}`.execute(trx)
  return last
}

/** Serializes writers of all processes: each entry includes the hash of the one before. */
const lock = sql`pg_advisory_xact_lock(hashtextextended('dms_audit', 0))`

const recordsOf = (rows: readonly Entry[]) => sql`jsonb_populate_recordset(null::audit_entries, ${JSON.stringify(rows)}::jsonb)`

/** Returns the rows of new entries after `head`, and the last of them. */
function chain(head: Head, entries: readonly NewEntry[]): { rows: Entry[]; last: Head } {
  let last = head
  const rows = entries.map(({ details, ...newEntry }) => {
    const entry = { ...newEntry, details: JSON.stringify(details), seq: last.seq + 1 }
    last = { seq: entry.seq, hash: hashOf(entry, last.hash) }
    return { ...entry, hash: last.hash }
  })
  return { rows, last }
}

/** Appends entries and returns the last one. Returns null, and appends nothing, if `head` is not the last entry of the log. */
async function appendAfter(db: Db, head: Head, entries: readonly NewEntry[]): Promise<Head | null> {
  const { rows, last } = chain(head, entries)
  try {
    const { numAffectedRows } = await sql`${prepared}
      with writing as materialized (select ${lock})
      insert into audit_entries select entry.* from writing, ${recordsOf(rows)} entry
      where exists (
        select from (select seq, hash from audit_entries order by seq desc limit 1) newest where seq = ${head.seq} and hash = ${head.hash})`.execute(
      db,
    )
    return numAffectedRows === BigInt(rows.length) ? last : null
  } catch (error) {
    // Another process appended an entry while this one waited for the lock.
    if (!isUniqueViolation(error)) throw error
    return null
  }
}

export interface Filter {
  /** user name or id, case-insensitive */
  actor?: string | undefined
  /** substring, case-insensitive */
  action?: string | undefined
  outcome?: NewEntry['outcome'] | undefined
  ip?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
  /** numbers, exclusive */
  after?: number | undefined
  before?: number | undefined
  order: 'asc' | 'desc'
  limit: number
  /** `next_cursor` of the previous page */
  cursor?: string | undefined
}

const keysets = {
  asc: keyset({ by: 'seq', type: 'integer', order: 'asc' }),
  desc: keyset({ by: 'seq', type: 'integer', order: 'desc' }),
}

/** Returns one page of the matching entries in order of number. Throws VALIDATION_ERROR for a cursor of another list. */
export function list({ db }: App, { order, limit: per_page, cursor, ...filter }: Filter): Promise<FetchedPage<Entry>> {
  const { actor, action, outcome, ip, from, to, after, before } = filter
  const by = keysets[order]
  const all = db
    .selectFrom('audit_entries')
    .$if(actor !== undefined, (query) => query.where(sql<boolean>`(lower(actor) = lower(${actor}) or actor_id::text = lower(${actor}))`))
    .$if(action !== undefined, (query) => query.where(sql<boolean>`position(lower(${action}) in lower(action)) > 0`))
    .$if(outcome !== undefined, (query) => query.where('outcome', '=', outcome ?? 'ok'))
    .$if(ip !== undefined, (query) => query.where('ip', '=', ip ?? ''))
    .$if(from !== undefined, (query) => query.where(sql<boolean>`at >= ${from}`))
    .$if(to !== undefined, (query) => query.where(sql<boolean>`at < ${afterMillisecond(to!)}`))
    .$if(after !== undefined, (query) => query.where('seq', '>', after ?? 0))
    .$if(before !== undefined, (query) => query.where('seq', '<', before ?? 0))
  return fetchWhole({ per_page, cursor }, by, ['audit', filter], (slice) => fetchSlice(all.selectAll(), by, slice))
}

/** Verifies the whole chain. `earlier` is the head of an earlier verification; without it a truncated end cannot be detected. */
export async function verify({ db }: App, earlier?: Head): Promise<Verification> {
  let head = genesis
  const verdict = (message: string | null, seq = head.seq + 1): Verification => ({
    entries: head.seq,
    head: head.seq === 0 ? null : head,
    problem: message === null ? null : { seq, message },
  })
  for (;;) {
    const entries = await db.selectFrom('audit_entries').selectAll().where('seq', '>', head.seq).orderBy('seq').limit(batchSize).execute()
    for (const entry of entries) {
      if (entry.seq !== head.seq + 1) return verdict('the entry is missing')
      if (entry.hash !== hashOf(entry, head.hash)) return verdict('the entry or its predecessor was changed')
      head = { seq: entry.seq, hash: entry.hash }
      if (earlier?.seq === head.seq && earlier.hash !== head.hash) return verdict('the chain differs from the earlier head', head.seq)
    }
    if (entries.length < batchSize) break
  }
  return verdict(earlier && earlier.seq > head.seq ? `the chain is truncated: the earlier head is entry ${earlier.seq}` : null)
}

/** Returns the SHA-256 of a JSON array: the previous hash, then all fields in column order. */
function hashOf(entry: Omit<Entry, 'hash'>, before: string): string {
  const { seq, at, actor_id, actor, via, ip, action, target, outcome, code, details, request_id } = entry
  const fields = [before, seq, at.toISOString(), actor_id, actor, via, ip, action, target, outcome, code, details, request_id]
  return hash('sha256', JSON.stringify(fields))
}
