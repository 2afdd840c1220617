/** The audit log: who did what, when and from where. Only ever added to; a chain of hashes shows whether that is true. */
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import type { Code } from '../errors.ts'
import { type FetchedPage, fetchWhole } from '../http/pages.ts'

export type Entry = Row<'audit_entries'>

/** What there is to say of one act; number, and hash come with being added. */
export interface NewEntry {
  at: Date
  actor_id: string | null
  /** user name, `operator`, or `anonymous` */
  actor: string
  /** the way in: `api`, or `cli:` and the name of the machine's user */
  via: string
  ip: string
  /** a route as `PUT /api/users/:id`, or a command as `dms restore` */
  action: string
  /** what it was done to: `id=…` */
  target: string
  outcome: 'ok' | 'refused' | 'failed'
  /** why it was refused, or failed */
  code: Code | null
  details: Record<string, unknown>
  request_id: string
}

/** Where a chain was once seen to end. */
export interface Head {
  seq: number
  hash: string
}

export interface Verification {
  /** entries that are as they were written */
  entries: number
  /** where the chain ends: to be kept elsewhere, and given to the next check */
  head: Head | null
  /** the first entry that is not as it was written, or is missing */
  problem: { seq: number; message: string } | null
}

/** The hash before the first entry. */
const genesisHash = '0'.repeat(64)

/** Entries that are read at once. */
const batchSize = 1000

/** Adds acts, in this order; they are durable when it returns. */
export async function append(app: App, acts: readonly NewEntry[]): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    // One writer at a time, over all processes: each entry needs the one before it.
    await sql`select pg_advisory_xact_lock(hashtextextended('dms_audit', 0))`.execute(trx)
    let head = (await findHead(trx)) ?? { seq: 0, hash: genesisHash }
    const rows = acts.map((act) => {
      const entry = { ...act, details: JSON.stringify(act.details), seq: head.seq + 1 }
      head = { seq: entry.seq, hash: hashOf(entry, head.hash) }
      return { ...entry, hash: head.hash }
    })
    await trx.insertInto('audit_entries').values(rows).execute()
  })
}

export interface Filter {
  /** user name or id */
  actor?: string | undefined
  /** a piece of it, no case */
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
  /** `next_cursor` of another page: this one begins behind it */
  cursor?: string | undefined
}

const keysets = {
  asc: keyset({ by: 'seq', type: 'integer', order: 'asc' }),
  desc: keyset({ by: 'seq', type: 'integer', order: 'desc' }),
}

/** A page of the entries that fit, by number. Throws VALIDATION_ERROR for a cursor of another list. */
export function list({ db }: App, { order, limit: per_page, cursor, ...filter }: Filter): Promise<FetchedPage<Entry & RowWithCursorKey>> {
  const { actor, action, outcome, ip, from, to, after, before } = filter
  const by = keysets[order]
  const all = db
    .selectFrom('audit_entries')
    .$if(actor !== undefined, (query) => query.where(sql<boolean>`(actor = ${actor} or actor_id::text = ${actor})`))
    .$if(action !== undefined, (query) => query.where(sql<boolean>`position(lower(${action}) in lower(action)) > 0`))
    .$if(outcome !== undefined, (query) => query.where('outcome', '=', outcome ?? 'ok'))
    .$if(ip !== undefined, (query) => query.where('ip', '=', ip ?? ''))
    .$if(from !== undefined, (query) => query.where(sql<boolean>`at >= ${from}`))
    .$if(to !== undefined, (query) => query.where(sql<boolean>`at <= ${to}`))
    .$if(after !== undefined, (query) => query.where('seq', '>', after ?? 0))
    .$if(before !== undefined, (query) => query.where('seq', '<', before ?? 0))
  return fetchWhole({ per_page, cursor }, by, ['audit', filter], ({ limit, after: place }) =>
    by
      .orderBy(place ? all.where(by.isAfter(place)) : all)
      .selectAll()
      .select(by.key)
      .limit(limit)
      .$castTo<Entry & RowWithCursorKey>()
      .execute(),
  )
}

/** Walks the whole chain. `known`: where it ended when somebody looked before; without it nobody can tell that its end was cut off. */
export async function verify({ db }: App, known?: Head): Promise<Verification> {
  let head: Head = { seq: 0, hash: genesisHash }
  const verdict = (message: string | null, seq = head.seq + 1): Verification => ({
    entries: head.seq,
    head: head.seq === 0 ? null : head,
    problem: message === null ? null : { seq, message },
  })
  for (;;) {
    const entries = await db.selectFrom('audit_entries').selectAll().where('seq', '>', head.seq).orderBy('seq').limit(batchSize).execute()
    for (const entry of entries) {
      if (entry.seq !== head.seq + 1) return verdict('the entry is missing')
      if (entry.hash !== hashOf(entry, head.hash)) return verdict('the entry, or the one before it, is not as it was written')
      head = { seq: entry.seq, hash: entry.hash }
      if (known?.seq === head.seq && known.hash !== head.hash) return verdict('the chain is another than the one seen before', head.seq)
    }
    if (entries.length < batchSize) break
  }
  return verdict(known && known.seq > head.seq ? `the chain ends here; it was seen to reach ${known.seq}` : null)
}

async function findHead(db: Db | Trx): Promise<Head | undefined> {
  return db.selectFrom('audit_entries').select(['seq', 'hash']).orderBy('seq', 'desc').limit(1).executeTakeFirst()
}

/** SHA-256 over the hash before and every field, in the order of the table, as one JSON array. */
function hashOf(entry: Omit<Entry, 'hash'>, before: string): string {
  const { seq, at, actor_id, actor, via, ip, action, target, outcome, code, details, request_id } = entry
  const fields = [before, seq, at.toISOString(), actor_id, actor, via, ip, action, target, outcome, code, details, request_id]
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex')
}
