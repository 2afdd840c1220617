/** Marks a store or data folder while a restore into it is unfinished: the marker holds its claim. Servers refuse it. */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import type { Markers } from '../ports/file-store.ts'
import { folderMarkers } from './folder-markers.ts'
import { loadStoreId, markerName } from './store-marker.ts'
import { storeMarkers } from './stores/registry.ts'

/** Marker that exists from the start of a restore until it is complete. */
const claimName = '.dms-restore'

/** Identifies the transaction of a restore, so that a later run can ask whether it was committed. */
const Commit = z.object({
  /** transaction id (xid8) */
  xid: z.string().regex(/^\d{1,20}$/),
  /** system identifier of the database, independent of its network address */
  database: z.string(),
})
export type Commit = z.infer<typeof Commit>

const Claim = z.object({
  /** store id that the restored database will have */
  store_id: z.string().regex(/^[\w-]{1,64}$/),
  /** null: COMMIT was not sent, so no row refers to these files */
  commit: Commit.nullable(),
  /** identity of the database of a running restore */
  database: z.string().optional(),
  /** random; another one every few seconds while the restore runs */
  heartbeat: z.string().optional(),
})
export type Claim = z.infer<typeof Claim>

/** Returns the claim of an unfinished restore, null if there is none. Throws on an invalid claim file. */
export async function readClaim(markers: Markers): Promise<Claim | null> {
  const text = await markers.read(claimName)
  return text === '' ? null : Claim.parse(JSON.parse(text))
}

/** Returns the store id in the marker of the store, '' if there is no marker. */
export const readStoreId = (markers: Markers): Promise<string> => markers.read(markerName)

/**
 * Claims the store. Returns false if another restore has claimed it at the same time. Servers refuse the store until the claim ends. `isNew`: there is no
 * claim of an interrupted restore to replace.
 */
export async function beginRestore(markers: Markers, claim: Claim, { isNew }: { isNew: boolean }): Promise<boolean> {
  await markers.write(claimName, JSON.stringify(claim), { isNew })
  return (await readClaim(markers))?.store_id === claim.store_id
}

/** Ties the claimed store to the database that will have this store id. */
export const writeStoreId = (markers: Markers, storeId: string): Promise<void> => markers.write(markerName, storeId)

/** Writes the claim durably. */
export const writeClaim = (markers: Markers, claim: Claim): Promise<void> => markers.write(claimName, JSON.stringify(claim))

/** Ends the claim after its restore was committed. */
export const endRestore = (markers: Markers): Promise<void> => markers.remove(claimName)

/** Claims a data folder before a restore creates the database in it. */
export const claimDataFolder = (folder: string): Promise<void> =>
  writeClaim(folderMarkers(folder), { store_id: randomUUID(), commit: null })

/** Throws ConfigError if a restore is running, was interrupted or has failed. */
export async function rejectUnfinishedRestore(db: Db, config: Config): Promise<void> {
  const markers = await storeMarkers(config)
  const claim = await readClaim(markers)
  const dataClaim = await readClaim(folderMarkers(config.data_dir))
  if (!claim && !dataClaim) return
  // The restore sets the id in its transaction. There is no id without a schema.
  const storeId = await loadStoreId(db).catch(() => undefined)
  if (storeId !== undefined && (claim === null || claim.store_id === storeId)) return
  const place = dataClaim ? config.data_dir : markers.location
  // A restore that may have been committed to another database needs its files.
  const alternative = claim?.commit ? '' : `, or remove ${place} and start empty`
  throw new ConfigError([`a restore into ${place} has not finished: run dms restore again${alternative}`])
}
