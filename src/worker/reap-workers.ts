/** Expires the leases of dead workers early. If such a worker is alive after all, its old fencing token keeps it from writing. */
import type { Db } from '../db/pool.ts'
import * as leases from '../jobs/leases.ts'
import { isAlive } from '../processes.ts'

/** Returns the name of a worker: HOST/PID. */
export const workerName = (host: string, pid: number): string => `${host}/${pid}`

/** Returns whether no process of this host has the id of a worker with this host's name. */
export function hasExited(name: string, host: string): boolean {
  const [workerHost, pid] = name.split('/')
  return workerHost === host && !isAlive(Number(pid))
}

/**
 * Seconds without a heartbeat after which a worker counts as dead if its process cannot be seen on this host. It holds leases, and sends one each second. A
 * live one in another container, or on a machine of the same name, cannot be seen either.
 */
const unseenTimeoutSeconds = 5

/**
 * Expires the leases of other workers without a recent heartbeat, or whose process on this host has exited. A heartbeat in the future was sent before the
 * clock was set back, and counts as old.
 */
export async function reapStaleWorkers(db: Db, self: string): Promise<void> {
  const [host = ''] = self.split('/')
  const stale = (await leases.loadLeaseHolders(db)).filter(
    ({ worker, silent }) =>
      worker !== self &&
      (silent === null || Math.abs(silent) > (hasExited(worker, host) ? unseenTimeoutSeconds : leases.workerTimeoutSeconds)),
  )
  await reap(
    db,
    stale.map(({ worker }) => worker),
  )
}

/** Expires the leases of an earlier worker with the same name, such as after the restart of a container. */
export const reapPredecessor = (db: Db, self: string): Promise<void> => reap(db, [self])

async function reap(db: Db, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await leases.expireLeases(db, names)
  await db.deleteFrom('workers').where('name', 'in', names).execute()
}
