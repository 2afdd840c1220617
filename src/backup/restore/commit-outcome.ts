/** Whether a transaction was committed whose answer never came: the database is asked, because both guesses can destroy data. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Database } from '../../db/pool.ts'
import type { Commit } from '../../files/restore-marker.ts'

export type Outcome = 'committed' | 'rolled back' | 'unknown'

/** Milliseconds between two questions. */
const intervalMs = 500

type Queries = Pick<pg.ClientBase, 'query'>

/** Where to ask later: to be called inside of the transaction, once it has written something. */
export async function commitOf(client: Queries): Promise<Commit> {
  const { rows } = await client.query<Commit>(`select pg_current_xact_id()::text as xid, ${databaseId} as database`)
  if (!rows[0]) throw new Error('no answer to pg_current_xact_id()')
  return rows[0]
}

/** Any role may ask; a copy of the cluster on another machine has the same. */
const databaseId = `(select system_identifier from pg_control_system()) || '/' || (select oid from pg_database where datname = current_database())`

/** Asks, on a new connection each time, until the transaction has ended or `timeoutMs` have passed. Never throws: a database that does not answer is `unknown`. */
export async function outcomeOf(
  database: Pick<Database, 'connect'>,
  storeId: string,
  { xid, database: id }: Commit,
  timeoutMs: number,
): Promise<Outcome> {
  for (const end = performance.now() + timeoutMs; ; await sleep(intervalMs)) {
    const outcome = await ask(database, storeId, xid, id).catch(() => null)
    if (outcome !== null) return outcome
    if (performance.now() + intervalMs > end) return 'unknown'
  }
}

/** null: it has not ended yet. */
async function ask(database: Pick<Database, 'connect'>, storeId: string, xid: string, id: string): Promise<Outcome | null> {
  const client = await database.connect('dms restore outcome')
  try {
    const { rows } = await client.query<{ isOurs: boolean }>(`select ${databaseId} = $1 as "isOurs"`, [id])
    if (!rows[0]?.isOurs) return 'unknown'
    const status = await statusOf(client, xid)
    if (status === 'in progress') return null
    const isCommitted = (await storeIdOf(client)) === storeId
    if (isCommitted) return status === 'committed' || status === null ? 'committed' : 'unknown'
    return status === 'aborted' || status === 'never assigned' ? 'rolled back' : 'unknown'
  } finally {
    await client.end()
  }
}

/** null: it ended so long ago that PostgreSQL keeps nothing of it. */
async function statusOf(client: Queries, xid: string): Promise<string | null> {
  try {
    const { rows } = await client.query<{ status: string | null }>('select pg_xact_status($1::xid8) as status', [xid])
    return rows[0]?.status ?? null
  } catch (error) {
    // "is in the future": the crash that took the transaction back took its number back, too.
    if ((error as { code?: unknown }).code === '22023') return 'never assigned'
    throw error
  }
}

/** The id that the database calls itself by; null where it has none. */
export async function storeIdOf(client: Queries): Promise<string | null> {
  const { rows } = await client.query<{ found: boolean }>(`select to_regclass('instance') is not null as found`)
  if (!rows[0]?.found) return null
  return (await client.query<{ value: string }>(`select value from instance where key = 'store_id'`)).rows[0]?.value ?? null
}
