/** The claim of a running restore on its store. Restores into one store from two databases have no common lock. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { shareRuns } from '../../concurrency.ts'
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

const busy = ({ location }: Markers): Busy => new Busy('restore', `from another database into ${location}`, null)

/**
 * Returns the claim of an interrupted restore; null for none. Throws Busy if a restore from another database is running, which takes fifteen seconds to find
 * out. A restore from this database is over: its lock is held by the caller.
 */
export async function findInterrupted(markers: Markers, database: string, signal: AbortSignal): Promise<restoreMarker.Claim | null> {
  const claim = await restoreMarker.readClaim(markers)
  if (!claim?.heartbeat || claim.database === database) return claim
  for (const end = performance.now() + heartbeatTimeoutMs; performance.now() < end; ) {
    await sleep(heartbeatIntervalMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    const current = await restoreMarker.readClaim(markers)
    if (current?.heartbeat === claim.heartbeat) continue
    if (current === null) return null
    throw busy(markers)
  }
  return claim
}

interface ClaimOptions {
  storeId: string
  database: string
  /** claim of an interrupted restore that this one replaces */
  interrupted: restoreMarker.Claim | null
  /** runs once no other restore can fill the store */
  assertEmpty(): Promise<void>
}

/**
 * Claims the store for a database that will have this store id, and sends heartbeats. Throws Busy if another restore has claimed it, and what `assertEmpty`
 * throws.
 */
export async function openStoreClaim(markers: Markers, { storeId, database, interrupted, assertEmpty }: ClaimOptions): Promise<StoreClaim> {
  const create = () => ({ store_id: storeId, commit: null, database, heartbeat: randomUUID() })
  const isNew = interrupted === null
  if (!(await restoreMarker.beginRestore(markers, create(), { isNew }))) throw busy(markers)
  try {
    await assertEmpty()
    await restoreMarker.writeStoreId(markers, storeId)
  } catch (error) {
    if (isNew) await restoreMarker.endRestore(markers)
    throw error
  }
  const isOurs = async () => (await restoreMarker.readStoreId(markers)) === storeId
  const renew = shareRuns(async () => {
    if (await isOurs()) await restoreMarker.writeClaim(markers, create())
  })
  let renewing: Promise<void> | null = null
  const timer = setInterval(() => {
    renewing = renew().catch(() => {})
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
