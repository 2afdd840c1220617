/** The claim of a running restore on its store. Restores into one store from two databases have no common lock. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Busy } from '../../db/lock.ts'
import { AppError } from '../../errors.ts'
import * as restoreMarker from '../../files/restore-marker.ts'
import type { Markers } from '../../ports/file-store.ts'

const heartbeatIntervalMs = 2000
/** Time after which the claim of another database counts as abandoned. */
const heartbeatTimeoutMs = 15_000

export interface StoreClaim {
  /** Ends the heartbeats and stores the transaction that is about to be committed. Throws CONFLICT if another restore has taken the store. */
  seal(commit: restoreMarker.Commit): Promise<void>
  /** Ends the heartbeats. Returns false if another restore has taken the store. */
  end(): Promise<boolean>
}

/** Waits whether a restore from another database is running. Throws Busy if it is. A restore from this database is over: its lock is held by the caller. */
export async function rejectRunningRestore(markers: Markers, database: string, signal: AbortSignal): Promise<void> {
  const claim = await restoreMarker.readClaim(markers)
  if (!claim?.heartbeat || claim.database === database) return
  for (const end = performance.now() + heartbeatTimeoutMs; performance.now() < end; ) {
    await sleep(heartbeatIntervalMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    const current = await restoreMarker.readClaim(markers)
    if (current?.heartbeat === claim.heartbeat) continue
    if (current === null) return
    throw new Busy('restore', `from another database into ${markers.location}`, null)
  }
}

/** Claims the store for a database that will have this store id, and sends heartbeats. */
export async function openStoreClaim(markers: Markers, storeId: string, database: string): Promise<StoreClaim> {
  const create = () => ({ store_id: storeId, commit: null, database, heartbeat: randomUUID() })
  await restoreMarker.beginRestore(markers, create())
  const isOurs = async () => (await restoreMarker.readStoreId(markers)) === storeId
  const renew = async () => {
    if (await isOurs()) await restoreMarker.writeClaim(markers, create())
  }
  let renewing: Promise<void> | null = null
  const timer = setInterval(() => {
    renewing ??= renew()
      .catch(() => {})
      .finally(() => {
        renewing = null
      })
  }, heartbeatIntervalMs).unref()
  const end = async () => {
    clearInterval(timer)
    await renewing
    return isOurs()
  }
  return {
    end,
    async seal(commit) {
      if (!(await end())) throw new AppError('CONFLICT', { path: markers.location }, `another restore has taken ${markers.location}`)
      await restoreMarker.writeClaim(markers, { store_id: storeId, commit })
    },
  }
}
