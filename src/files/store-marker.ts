/** Store markers: each ties a document store to its database. A store that is not mounted, or belongs to another database, is refused. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError, NoData } from '../errors.ts'
import type { Markers } from '../ports/file-store.ts'
import { isUsed, otherKind } from './used-stores.ts'

/** Returns the folder of a document store of kind `disk`. */
export const storeFolder = ({ storage, data_dir }: Pick<Config, 'storage' | 'data_dir'>): string => storage.path || join(data_dir, 'files')

/** Name of the marker that contains the store id. */
export const markerName = '.dms-store'

/** Compares the marker with the store id in the database. Creates both on the first start; with `creates`, also the lost marker of an empty store. Throws ConfigError, NoData. */
export async function checkStoreMarker(db: Db, markers: Markers, { creates }: { creates: boolean }): Promise<void> {
  const { kind, location } = markers
  const marker = await markers.read(markerName).catch(emptyIfUnreadable)
  const storeId = await loadStoreId(db)
  if (storeId && marker === storeId) return
  const belongsElsewhere = (own: string) =>
    new ConfigError([`the document store ${location} belongs to another database (its ${markerName} says ${marker}, ${own})`])
  if (marker) throw belongsElsewhere(storeId ? `ours is ${storeId}` : 'this database is new')
  const isUnused = (await isUsed(db, otherKind[kind])) && !(await isUsed(db, kind))
  if (storeId && !isUnused && (await hasStoredFiles(db))) {
    const question = kind === 's3' ? 'is it the right bucket and prefix?' : 'is the folder not mounted?'
    throw new ConfigError([`the document store ${location} has no ${markerName}, but the database has documents: ${question}`])
  }
  if (storeId && !isUnused && !creates) throw new NoData(location)
  const id = storeId ?? (await createStoreId(db))
  await markers.write(markerName, id, { isNew: true })
  // Another database has claimed the store at the same time.
  if ((await markers.read(markerName)) !== id) throw belongsElsewhere(`ours is ${id}`)
}

/** Returns '' for a file that cannot be read. */
export function emptyIfUnreadable(error: NodeJS.ErrnoException): string {
  if (error.syscall === undefined) throw error
  return ''
}

/** Returns the store id in the database; undefined before the first start. */
export const loadStoreId = async (db: Db): Promise<string | undefined> =>
  (await db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirst())?.value

const hasStoredFiles = async (db: Db) => (await db.selectFrom('stored_files').select('sha256').limit(1).execute()).length > 0

/** Returns the store id. If several servers start at the same time, the first one sets it. */
async function createStoreId(db: Db): Promise<string> {
  await db
    .insertInto('instance')
    .values({ key: 'store_id', value: randomUUID() })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await loadStoreId(db)) ?? ''
}
