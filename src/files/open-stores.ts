/** The document stores of this archive. A store that once received files stays recorded in the database until it is retired. */
import { shareRuns } from '../concurrency.ts'
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { AppError, ConfigError } from '../errors.ts'
import type { FileStore, StoreKind, Stores } from '../ports/file-store.ts'
import { claimStore, rejectOtherDatabase } from './database-marker.ts'
import { checkStoreMarker, emptyIfUnreadable, loadStoreId, markerName } from './store-marker.ts'
import { checkTmpPath, stores as openers } from './stores/registry.ts'
import { withSecondary } from './stores/secondary.ts'
import { forgetUse, isUsed, otherKind, recordUse } from './used-stores.ts'

export interface OpenedStores {
  /** reads from all stores, and writes to the primary */
  readonly files: FileStore
  readonly stores: Stores
  close(): Promise<void>
}

/** Time for which a check of the database marker holds. For a bucket, each check opens a connection. */
const checkedMs = 1000

/** Opens the primary store alone. `storeId`: text of its marker, null to accept any. Throws ConfigError. */
export async function openPrimary(config: Config, storeId: string | null = null): Promise<Omit<OpenedStores, 'stores'>> {
  const files = await openers[config.storage.kind].open(config, storeId)
  return { files, close: () => files.close() }
}

/** Opens the primary store now, and the secondary store when a file is missing. `config` has a resolved `storage.path`. Throws ConfigError. */
export async function openStores(config: Config, db: Db): Promise<OpenedStores> {
  const primary = config.storage.kind
  const isPresent = openPresenceCheck(config, db)
  const opened = new Map<StoreKind, Promise<FileStore>>()
  const openOnce = (kind: StoreKind): Promise<FileStore> => {
    const store = opened.get(kind) ?? openGuarded(kind, config, db)
    opened.set(kind, store)
    store.catch(() => opened.delete(kind))
    return store
  }
  const stores: Stores = {
    primary,
    async open(kind) {
      if (kind !== primary && !(await isPresent(kind))) return null
      return openOnce(kind)
    },
    async create(kind) {
      if (kind !== primary) {
        const markers = await openers[kind].markers(config)
        await checkStoreMarker(db, markers, { creates: true })
        await claimStore(db, markers, config)
      }
      const store = await openOnce(kind)
      if (kind === 'disk') await checkTmpPath(config)
      await recordUse(db, kind)
      return store
    },
    retire: (kind) => forgetUse(db, kind),
    locate: (kind) => locationOf(config, kind),
  }
  const first = await openOnce(primary)
  return {
    files: withSecondary(first, () => stores.open(otherKind[primary])),
    stores,
    async close() {
      for (const store of opened.values()) await (await store).close()
    },
  }
}

/** Opens a store that removes no file while another database uses it: a copy of this one may have been started meanwhile. */
async function openGuarded(kind: StoreKind, config: Config, db: Db): Promise<FileStore> {
  const store = await openers[kind].open(config, (await loadStoreId(db)) ?? null)
  const rejectOther = shareRuns(async () => {
    const rejecting = rejectOtherDatabase(db, await openers[kind].markers(config), config)
    await rejecting.catch((error: unknown) => {
      throw error instanceof ConfigError ? unavailable(error.message) : error
    })
  }, checkedMs)
  return {
    ...store,
    async remove(address) {
      await rejectOther()
      await store.remove(address)
    },
  }
}

/**
 * Returns a function that tells whether the secondary store has the marker of this archive. It throws STORAGE_UNAVAILABLE if the store
 * may have files and is out of reach.
 */
function openPresenceCheck(config: Config, db: Db): (kind: StoreKind) => Promise<boolean> {
  let storeId: string | undefined
  let isBucketMarked = false
  return async (kind) => {
    const isConfigured = locationOf(config, kind) !== null
    if (isConfigured && !(kind === 's3' && isBucketMarked)) {
      const marker = await (await openers[kind].markers(config)).read(markerName).catch(emptyIfUnreadable)
      storeId ??= await loadStoreId(db)
      if (marker === '' || marker !== storeId) {
        if (!(await isUsed(db, kind))) return false
        throw unavailable(`The document store ${locationOf(config, kind)} has files, but not the marker of this archive.`)
      }
      // A folder may be unmounted later.
      isBucketMarked ||= kind === 's3'
    }
    if (!isConfigured && (await isUsed(db, kind)))
      throw unavailable('The document store in S3 has files, but storage.s3_bucket is not set.')
    return isConfigured
  }
}

const unavailable = (message: string): AppError => new AppError('STORAGE_UNAVAILABLE', { retry_after_secs: 300 }, message)

function locationOf({ storage }: Config, kind: StoreKind): string | null {
  if (kind === 'disk') return storage.path
  return storage.s3_bucket === '' ? null : `s3://${storage.s3_bucket}/${storage.s3_prefix}`
}
