/** Adoption: this database takes over document stores that another database used last. From then on the other one is refused. */
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import type { Markers, StoreKind } from '../ports/file-store.ts'
import { loadStoreUse, type StoreUse } from './database-marker.ts'
import { checkStoreMarker, emptyIfUnreadable, loadStoreId, markerName } from './store-marker.ts'
import { stores as openers } from './stores/registry.ts'
import { otherKind } from './used-stores.ts'

export interface UsedStore extends StoreUse {
  readonly kind: StoreKind
  readonly location: string
}

/** Loads the use of each store of this archive, the primary first. Throws ConfigError, NoData, STORAGE_UNAVAILABLE. */
export async function loadUsedStores(db: Db, config: Config): Promise<UsedStore[]> {
  const primary = await openers[config.storage.kind].markers(config)
  await checkStoreMarker(db, primary, { creates: false })
  const secondary = await findSecondary(db, config)
  const all = secondary === null ? [primary] : [primary, secondary]
  const used = await Promise.all(
    all.map(async (markers) => ({ kind: markers.kind, location: markers.location, ...(await loadStoreUse(db, markers, config)) })),
  )
  if (used.some(({ own }) => own === null)) {
    const problem = 'the role of database.url may not call pg_control_system(), so dms does not know which database uses a store'
    throw Object.assign(new ConfigError([problem]), { fix: 'grant execute on function pg_control_system() to this role' })
  }
  return used
}

/** Returns the markers of the secondary store; null if this archive has none. */
async function findSecondary(db: Db, config: Config): Promise<Markers | null> {
  const kind = otherKind[config.storage.kind]
  if (kind === 's3' && config.storage.s3_bucket === '') return null
  const markers = await openers[kind].markers(config)
  return (await markers.read(markerName).catch(emptyIfUnreadable)) === (await loadStoreId(db)) ? markers : null
}
