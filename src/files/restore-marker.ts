/** A folder of files that is being filled by a restore: no server takes it for its own before that is done. */
import { open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { markerName } from './store-marker.ts'

/** Says that a restore has begun here and has not ended. */
const noteName = '.dms-restore'

/** Where to ask whether the rows of a restore were committed. */
const Commit = z.object({
  /** of its transaction (xid8) */
  xid: z.string().regex(/^\d{1,20}$/),
  /** identifies the database, whatever its address */
  database: z.string(),
})
export type Commit = z.infer<typeof Commit>

const Claim = z.object({
  /** what the database will call itself */
  store_id: z.string().regex(/^[\w-]{1,64}$/),
  /** null: COMMIT was never sent, so no row refers to these files */
  commit: Commit.nullable(),
})
export type Claim = z.infer<typeof Claim>

/** The claim of a restore that has not ended; null where there is none. Throws where it cannot be understood. */
export async function claimOf(folder: string): Promise<Claim | null> {
  const text = await read(folder, noteName)
  return text === '' ? null : Claim.parse(JSON.parse(text))
}

/** The id that the folder says it belongs to; '' where it says nothing. */
export const ownerOf = (folder: string): Promise<string> => read(folder, markerName)

/** Claims it for a database that will call itself `store_id`; until it does, every server refuses the folder. */
export async function beginFilling(folder: string, claim: Claim): Promise<void> {
  await noteClaim(folder, claim)
  await put(folder, markerName, claim.store_id)
}

/** Writes the claim down, durably. */
export const noteClaim = (folder: string, claim: Claim): Promise<void> => put(folder, noteName, JSON.stringify(claim))

/** The database knows of it now. */
export const endFilling = (folder: string): Promise<void> => rm(join(folder, noteName), { force: true })

/** Takes the claim back. */
export async function giveUpFilling(folder: string): Promise<void> {
  await rm(join(folder, markerName), { force: true })
  await endFilling(folder)
}

const read = async (folder: string, name: string): Promise<string> =>
  (
    await readFile(join(folder, name), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return ''
    })
  ).trim()

/** Replaces the file, whole or not at all. */
async function put(folder: string, name: string, text: string): Promise<void> {
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
