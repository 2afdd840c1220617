/** A folder of files that is being filled by a restore: no server takes it for its own before that is done. */
import { open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { markerName } from './belongs.ts'

/** Says that a restore has begun here and has not ended. */
const noteName = '.dms-restore'

/** Whether an unfinished restore left files here. */
export const isBeingFilled = async (folder: string): Promise<boolean> => (await read(folder, noteName)) !== ''

/** The id that the folder says it belongs to; '' where it says nothing. */
export const ownerOf = (folder: string): Promise<string> => read(folder, markerName)

/** Claims it for a database that will call itself `storeId`; until it does, every server refuses the folder. */
export async function beginFilling(folder: string, storeId: string): Promise<void> {
  await put(folder, noteName, storeId)
  await put(folder, markerName, storeId)
}

/** The database knows of it now. */
export const endFilling = (folder: string): Promise<void> => rm(join(folder, noteName), { force: true })

/** Takes the claim back. */
export async function giveUpFilling(folder: string): Promise<void> {
  await rm(join(folder, markerName), { force: true })
  await endFilling(folder)
}

const read = async (folder: string, name: string): Promise<string> => (await readFile(join(folder, name), 'utf8').catch(() => '')).trim()

async function put(folder: string, name: string, text: string): Promise<void> {
  const handle = await open(join(folder, name), 'w', 0o600)
  try {
    await handle.writeFile(`${text}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
