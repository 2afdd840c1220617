/** Workers that died without a word: their jobs need not wait for the lease to end. Should one of them live after all, its fence keeps it from writing. */

import type { Db } from '../db/pool.ts'
import { isAlive } from '../is-alive.ts'
import * as claims from '../jobs/leases.ts'

/** Seconds without a sign of life; a worker gives one each second while it has jobs. */
const silence = 30

/** A worker's name says where it runs. */
export const nameOf = (host: string, pid: number): string => `${host}/${pid}`

/** Whether a worker of this host is gone without having said so. */
export function isGone(name: string, host: string): boolean {
  const [theirs, pid] = name.split('/')
  return theirs === host && !isAlive(Number(pid))
}

/** Ends the leases of workers that are not `self` and fell silent, or whose process is gone from this host. */
export async function buryDead(db: Db, self: string): Promise<void> {
  const [host = ''] = self.split('/')
  const dead = (await claims.loadLeaseHolders(db)).filter(
    ({ worker, silent }) => worker !== self && (silent === null || silent > silence || isGone(worker, host)),
  )
  await bury(
    db,
    dead.map(({ worker }) => worker),
  )
}

/** Ends the leases of an earlier worker of the same name, as a container has that was started again. */
export const buryPredecessor = (db: Db, self: string): Promise<void> => bury(db, [self])

async function bury(db: Db, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await claims.expireLeases(db, names)
  await db.deleteFrom('workers').where('name', 'in', names).execute()
}
