/** Finds out whether a transaction was committed when the answer to COMMIT was lost. A guess in either direction can destroy data. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { databaseIdSql } from '../../db/database-id.ts'
import type { Database } from '../../db/pool.ts'
import type { Commit } from '../../files/restore-marker.ts'

export type CommitOutcome = 'committed' | 'rolled back' | 'unknown'

const pollIntervalMs = 500

type Client = Pick<pg.ClientBase, 'query'>

/** Returns the transaction id and the database id. Call it inside the transaction, after the first write. */
export async function readCommitId(client: Client): Promise<Commit> {
  const { rows } = await client.query<Commit>(`select pg_current_xact_id()::text as xid, ${databaseIdSql} as database`)
  if (!rows[0]) throw new Error('no answer to pg_current_xact_id()')
  return rows[0]
}

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
    const { rows } = await client.query<{ isOurs: boolean }>(`select ${databaseIdSql} = $1 as "isOurs"`, [id])
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
