/** Generated secrets in files of the data folder. Processes that start at the same time use the same secret. */
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, mkdir, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { flushFolder } from '../folders.ts'

/** Returns the secret in the file. Creates a missing file with `bytes` random bytes in base64. */
export async function readOrCreateSecret(path: string, bytes: number): Promise<string> {
  if (!existsSync(path)) {
    await mkdir(dirname(path), { recursive: true })
    await createSecretFile(path, `${randomBytes(bytes).toString('base64')}\n`)
  }
  return (await readFile(path, 'utf8')).trim()
}

/** Replaces the file atomically and durably: data encrypted with a key that a power cut loses could never be read again. */
export async function replaceSecretFile(path: string, text: string): Promise<void> {
  await rename(await writeTemporary(path, `${text}\n`), path)
  await flushFolder(dirname(path))
}

/** Creates the file atomically and durably by a link. Keeps the file of a process that was first. Returns whether it was created. */
export async function createSecretFile(path: string, contents: string | Uint8Array): Promise<boolean> {
  const temporary = await writeTemporary(path, contents)
  try {
    await link(temporary, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    await unlink(temporary)
    await flushFolder(dirname(path))
  }
}

async function writeTemporary(path: string, contents: string | Uint8Array): Promise<string> {
  const temporary = `${path}.${randomUUID()}.tmp`
  await writeFile(temporary, contents, { mode: 0o600, flush: true }).catch(async (error) => {
    await rm(temporary, { force: true })
    throw error
  })
  return temporary
}
