/** A secret that is made once and kept in a file of the data folder; two processes that start at once agree on the one that was first. */
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, mkdir, readFile, rename, unlink, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

/** The text of the file, which is made from `bytes` random bytes (base64) where there is none. */
export async function readOrCreateSecret(path: string, bytes: number): Promise<string> {
  if (!existsSync(path)) {
    await mkdir(dirname(path), { recursive: true })
    await createFile(path, randomBytes(bytes).toString('base64'))
  }
  return (await readFile(path, 'utf8')).trim()
}

/** Replaces the file, whole or not at all. */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  await rename(await writeTemporary(path, text), path)
}

/** Written under another name and linked: nobody ever reads half of it, and the second of two makers finds the first one's. */
async function createFile(path: string, text: string): Promise<void> {
  const temporary = await writeTemporary(path, text)
  await link(temporary, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await unlink(temporary)
}

async function writeTemporary(path: string, text: string): Promise<string> {
  const temporary = `${path}.${randomUUID()}.tmp`
  await writeFile(temporary, `${text}\n`, { mode: 0o600, flush: true })
  return temporary
}
