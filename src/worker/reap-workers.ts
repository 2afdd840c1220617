/** Workers that died without a word: their jobs need not wait for the lease to end. Should one of them live after all, its fence keeps it from writing. */

import type { Db } from '../db/pool.ts'
import { isAlive } from '../is-alive.ts'
import * as claims from '../jobs/leases.ts'

/** Seconds without a sign of life; a worker gives one each second while it has jobs. */
const silenceTimeoutSeconds = 30

/** A worker's name says where it runs. */
export const workerName = (host: string, pid: number): string => `${host}/${pid}`

/** Whether a worker of this host is gone without having said so. */
export function hasExited(name: string, host: string): boolean {
  const [theirs, pid] = name.split('/')
  return theirs === host && !isAlive(Number(pid))
}

/** Ends the leases of workers that are not `self` and fell silent, or whose process is gone from this host. */
export async function reapStaleWorkers(db: Db, self: string): Promise<void> {
  const [host = ''] = self.split('/')
  const stale = (await claims.loadLeaseHolders(db)).filter(
    ({ worker, silent }) => worker !== self && (silent === null || silent > silenceTimeoutSeconds || hasExited(worker, host)),
  )
  await reap(
    db,
    stale.map(({ worker }) => worker),
  )
}

/** Ends the leases of an earlier worker of the same name, as a container has that was started again. */
export const reapPredecessor = (db: Db, self: string): Promise<void> => reap(db, [self])

async function reap(db: Db, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await claims.expireLeases(db, names)
  await db.deleteFrom('workers').where('name', 'in', names).execute()
}
