/** Marks a store folder or data folder while a restore into it is unfinished: the marker file holds its claim. Servers refuse such a folder. */
import { randomUUID } from 'node:crypto'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { Config } from '../config/schema.ts'
import type { Db } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import { flushFolder } from '../flush-folder.ts'
import { loadStoreId, markerName, storeFolder } from './store-marker.ts'

/** File that exists from the start of a restore until it is complete. */
const claimFileName = '.dms-restore'

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
})
export type Claim = z.infer<typeof Claim>

/** Returns the claim of an unfinished restore, null if there is none. Throws on an invalid claim file. */
export async function readClaim(folder: string): Promise<Claim | null> {
  const text = await readIfExists(folder, claimFileName)
  return text === '' ? null : Claim.parse(JSON.parse(text))
}

/** Returns the store id in the marker of the folder, '' if there is no marker. */
export const readStoreId = (folder: string): Promise<string> => readIfExists(folder, markerName)

/** Claims the folder for a database that will have this store id. Servers refuse the folder until then. */
export async function beginRestore(folder: string, claim: Claim): Promise<void> {
  await writeClaim(folder, claim)
  await writeDurably(folder, markerName, claim.store_id)
}

/** Writes the claim durably. */
export const writeClaim = (folder: string, claim: Claim): Promise<void> => writeDurably(folder, claimFileName, JSON.stringify(claim))

/** Ends the claim on a folder after its restore was committed. */
export const endRestore = (folder: string): Promise<void> => rm(join(folder, claimFileName), { force: true })

/** Claims a data folder before a restore creates the database in it. */
export const claimDataFolder = (folder: string): Promise<void> => writeClaim(folder, { store_id: randomUUID(), commit: null })

/** Throws ConfigError where a restore is running, was interrupted or has failed. */
export async function rejectUnfinishedRestore(db: Db, config: Config): Promise<void> {
  const folder = storeFolder(config)
  const [claim, dataClaim] = [await readClaim(folder), await readClaim(config.data_dir)]
  if (!claim && !dataClaim) return
  // The restore sets the id in its transaction. Without a schema there is none.
  const storeId = await loadStoreId(db).catch(() => undefined)
  if (storeId !== undefined && (claim === null || claim.store_id === storeId)) return
  const place = dataClaim ? config.data_dir : folder
  // A restore that may have been committed to another database needs its files.
  const alternative = claim?.commit ? '' : `, or remove ${place} and start empty`
  throw new ConfigError([`a restore into ${place} has not finished: run dms restore again${alternative}`])
}

const readIfExists = async (folder: string, name: string): Promise<string> =>
  (
    await readFile(join(folder, name), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return ''
    })
  ).trim()

/** Replaces a file atomically and durably. */
async function writeDurably(folder: string, name: string, text: string): Promise<void> {
  const partial = join(folder, `${name}.partial`)
  await rm(partial, { force: true })
  const handle = await open(partial, 'wx', 0o600)
  try {
    await handle.writeFile(`${text}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(partial, join(folder, name))
  await flushFolder(folder)
}
