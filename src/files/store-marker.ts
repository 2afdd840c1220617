/**
 * Store markers: a file that ties a store folder to its database. A folder that is not mounted, or belongs to another database, is refused.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError, NoData } from '../errors.ts'
import { isUsed } from './used-stores.ts'

/** Returns the folder of a document store of kind `disk`. */
export const storeFolder = ({ storage, data_dir }: Pick<Config, 'storage' | 'data_dir'>): string => storage.path || join(data_dir, 'files')

/** Name of the marker file. It contains the store id. */
export const markerName = '.dms-store'

/** Compares the marker with the store id in the database. Creates both on the first start, and a lost marker of an empty store if `creates`. Throws ConfigError, NoData. */
export async function checkStoreMarker(db: Db, folder: string, creates: boolean): Promise<void> {
  const path = join(folder, markerName)
  const marker = (await readFile(path, 'utf8').catch(() => '')).trim()
  const storeId = await loadStoreId(db)
  if (storeId && marker === storeId) return
  if (storeId && marker)
    throw new ConfigError([`storage.path ${folder} belongs to another database (its ${markerName} says ${marker}, ours is ${storeId})`])
  if (!storeId && marker)
    throw new ConfigError([`storage.path ${folder} belongs to another database (its ${markerName} says ${marker}, this database is new)`])
  const isUnused = (await isUsed(db, 's3')) && !(await isUsed(db, 'disk'))
  if (storeId && !isUnused && (await hasStoredFiles(db))) {
    throw new ConfigError([`storage.path ${folder} has no ${markerName}, but the database has documents: is the folder not mounted?`])
  }
  if (storeId && !isUnused && !creates) throw new NoData(folder)
  const id = storeId ?? (await createStoreId(db))
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const handle = await open(path, 'w', 0o600)
  await handle.writeFile(`${id}\n`)
  await handle.sync()
  await handle.close()
}

/** Returns the store id in the database; undefined before the first start. */
export const loadStoreId = async (db: Db): Promise<string | undefined> =>
  (await db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirst())?.value

const hasStoredFiles = async (db: Db) => (await db.selectFrom('stored_files').select('sha256').limit(1).execute()).length > 0

/** Returns the store id. Of two servers that start at once, the first one sets it. */
async function createStoreId(db: Db): Promise<string> {
  await db
    .insertInto('instance')
    .values({ key: 'store_id', value: randomUUID() })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await loadStoreId(db)) ?? ''
}
