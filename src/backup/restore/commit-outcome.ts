/** Finds out whether a transaction was committed when the answer to COMMIT was lost. A guess in either direction can destroy data. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type pg from 'pg'
import type { Database } from '../../db/pool.ts'
import type { Commit } from '../../files/restore-marker.ts'

export type CommitOutcome = 'committed' | 'rolled back' | 'unknown'

const pollIntervalMs = 500

type Client = Pick<pg.ClientBase, 'query'>

/** Returns the transaction id and the database id. Call it inside the transaction, after the first write. */
export async function readCommitId(client: Client): Promise<Commit> {
  const { rows } = await client.query<Commit>(`select pg_current_xact_id()::text as xid, ${databaseId} as database`)
  if (!rows[0]) throw new Error('no answer to pg_current_xact_id()')
  return rows[0]
}

/** Returns the identity of the database, independent of its network address. */
export async function readDatabaseId({ db }: Pick<Database, 'db'>): Promise<string> {
  const { rows } = await sql<{ id: string }>`select ${sql.raw(databaseId)} as id`.execute(db)
  return rows[0]?.id ?? ''
}

/** Readable by any role. A physical copy of the cluster has the same id. */
const databaseId = `(select system_identifier from pg_control_system()) || '/' || (select oid from pg_database where datname = current_database())`

/**
 * Polls until the transaction has ended or `timeoutMs` have passed, each time on a new connection. Never throws: returns `unknown` if the database
 * does not answer.
 */
export async function waitForCommitOutcome(
  database: Pick<Database, 'connect'>,
  storeId: string,
  { xid, database: id }: Commit,
  timeoutMs: number,
): Promise<CommitOutcome> {
  for (const end = performance.now() + timeoutMs; ; await sleep(pollIntervalMs)) {
    const outcome = await queryOutcome(database, storeId, xid, id).catch(() => null)
    if (outcome !== null) return outcome
    if (performance.now() + pollIntervalMs > end) return 'unknown'
  }
}

/** Returns null while the transaction is in progress. */
async function queryOutcome(database: Pick<Database, 'connect'>, storeId: string, xid: string, id: string): Promise<CommitOutcome | null> {
  const client = await database.connect('dms restore outcome')
  try {
    const { rows } = await client.query<{ isOurs: boolean }>(`select ${databaseId} = $1 as "isOurs"`, [id])
    if (!rows[0]?.isOurs) return 'unknown'
    const status = await queryTransactionStatus(client, xid)
    if (status === 'in progress') return null
    const isCommitted = (await readStoreId(client)) === storeId
    if (isCommitted) return status === 'committed' || status === null ? 'committed' : 'unknown'
    return status === 'aborted' || status === 'never assigned' ? 'rolled back' : 'unknown'
  } finally {
    await client.end()
  }
}

/** Returns null for a transaction so old that PostgreSQL has discarded its status. */
async function queryTransactionStatus(client: Client, xid: string): Promise<string | null> {
  try {
    const { rows } = await client.query<{ status: string | null }>('select pg_xact_status($1::xid8) as status', [xid])
    return rows[0]?.status ?? null
  } catch (error) {
    // "is in the future": crash recovery rolled the transaction back and reuses its id.
    if ((error as { code?: unknown }).code === '22023') return 'never assigned'
    throw error
  }
}

/** Returns the store id in the database; null for a database without one. */
export async function readStoreId(client: Client): Promise<string | null> {
  const { rows } = await client.query<{ found: boolean }>(`select to_regclass('instance') is not null as found`)
  if (!rows[0]?.found) return null
  return (await client.query<{ value: string }>(`select value from instance where key = 'store_id'`)).rows[0]?.value ?? null
}
