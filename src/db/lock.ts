/** Session advisory locks over all processes and hosts, each on its own connection. */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import type pg from 'pg'
import { shareRuns } from '../concurrency.ts'
import type { Database, Trx } from './pool.ts'

/** Another process holds the lock. The command line exits with 75. */
export class Busy extends Error {
  readonly lock: string
  /** application_name of the holder: `dms migrate pid=42 host=a` */
  readonly holder: string
  readonly since: Date | null

  constructor(lock: string, holder: string, since: Date | null) {
    super(`${lock}: already running (${holder}${since ? ` since ${since.toISOString()}` : ''})`)
    this.name = 'Busy'
    this.lock = lock
    this.holder = holder
    this.since = since
  }
}

/** The time of the whole command has passed while it waited for a lock. The command line exits with 8. */
export class LockWaitTimeout extends Error {
  constructor(timeout: Error, holder: Busy) {
    super(`${timeout.message}: ${holder.message}`, { cause: timeout })
    this.name = 'LockWaitTimeout'
  }
}

/** The connection of a lock is lost, and with it the lock. */
export class LockLost extends Error {
  constructor(lock: string, cause?: unknown) {
    super(`${lock}: the connection to the database is lost`, { cause })
    this.name = 'LockLost'
  }
}

/** A lock while it is held. */
export interface HeldLock {
  /** Throws LockLost. */
  assertHeld(): Promise<void>
}

const assertTimeoutMs = 10_000

export interface LockOptions {
  /** name of the holder in pg_stat_activity; default: the name of the lock */
  label?: string
  /** ends the wait: its reason is thrown, or LockWaitTimeout if the reason is a TimeoutError */
  signal?: AbortSignal | undefined
}

/** Runs `work` while holding the lock `name`. Waits for it up to `timeoutMs`, then throws Busy. */
export async function withLock<T>(
  database: Pick<Database, 'connect'>,
  name: string,
  timeoutMs: number,
  work: (lock: HeldLock) => Promise<T>,
  { label = name, signal }: LockOptions = {},
): Promise<T> {
  const client = await database.connect(`dms ${label} pid=${process.pid} host=${hostname()}`)
  try {
    await client.query(`set client_connection_check_interval = '10s'`).catch(() => {})
    await acquire(client, name, timeoutMs, signal)
    return await work({ assertHeld: openAssertion(client, name) })
  } finally {
    await client.end().catch(() => {})
  }
}

/** Returns a function that asks the database over the connection of the lock. Concurrent callers share a question. */
const openAssertion = (client: pg.Client, name: string): (() => Promise<void>) =>
  shareRuns(async () => {
    const query = client.query('select').catch((error) => {
      throw new LockLost(name, error)
    })
    const timeout = sleep(assertTimeoutMs, undefined, { ref: false }).then(() => {
      throw new LockLost(name)
    })
    await Promise.race([query, timeout])
  })

/** The lock that a backup holds while it reads stored files. Removals of files share it. */
export const fileRemovalLock = 'files.delete'

/** Returns whether a backup is reading stored files. If false, no backup starts before the transaction ends. */
export async function isFileRemovalLocked(trx: Trx): Promise<boolean> {
  const { rows } = await sql<{ got: boolean }>`
    select pg_try_advisory_xact_lock_shared(hashtext('dms'), hashtext(${fileRemovalLock})) as got`.execute(trx)
  return rows[0]?.got !== true
}

/** Joins the holder of the lock `lock.name`. */
const lockHolders = `pg_locks l on l.locktype = 'advisory' and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid::int8 = hashtext('dms')::int8 & 4294967295 and l.objid::int8 = hashtext(lock.name)::int8 & 4294967295`

/** Returns the condition that a lock is held. */
export const isLocked = (name: RawBuilder<string>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from (select ${name} as name) lock join ${sql.raw(lockHolders)})`

async function acquire(client: pg.Client, name: string, timeoutMs: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const { rows } = await client.query<{ got: boolean }>(`select pg_try_advisory_lock(hashtext('dms'), hashtext($1)) as got`, [name])
    if (rows[0]?.got) return
    if (performance.now() >= deadline) throw await describeHolder(client, name)
    await sleep(Math.min(100, Math.max(1, deadline - performance.now())), undefined, { signal }).catch(() => {})
    if (!signal?.aborted) continue
    throw signal.reason.name === 'TimeoutError' ? new LockWaitTimeout(signal.reason, await describeHolder(client, name)) : signal.reason
  }
}

async function describeHolder(client: pg.Client, name: string): Promise<Busy> {
  const { rows } = await client.query<{ application_name: string; backend_start: Date }>(
    `select a.application_name, a.backend_start from (select $1::text as name) lock join ${lockHolders} join pg_stat_activity a using (pid)`,
    [name],
  )
  return new Busy(name, rows[0]?.application_name ?? 'holder unknown', rows[0]?.backend_start ?? null)
}
