/** Claims of running restores on a store folder. Servers refuse a claimed folder. */
import { open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { markerName } from './store-marker.ts'

/** File that exists from the start of a restore to its end. */
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

/** Ends a claim after its restore was committed. */
export const endRestore = (folder: string): Promise<void> => rm(join(folder, claimFileName), { force: true })

/** Removes claim and marker of a restore that was not committed. */
export async function abortRestore(folder: string): Promise<void> {
  await rm(join(folder, markerName), { force: true })
  await endRestore(folder)
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
  const names = await open(folder)
  await names.sync().finally(() => names.close())
}
