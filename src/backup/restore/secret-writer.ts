/** Restores the keys that dms generated in the data directory. */
import { open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { secretNames } from '../create/create-backup.ts'

export function createSecretWriter(dataDir: string) {
  const found = new Map<string, Buffer>()
  const written: string[] = []
  return {
    add(name: string, secret: Buffer) {
      if (secretNames.some((known) => known === name)) found.set(name, secret)
    },
    /** `path`: of the entry in the backup */
    discard: (path: string) => void found.delete(path.slice(path.lastIndexOf('/') + 1)),
    /** Writes keys that do not exist yet. Returns the names of existing keys with other contents, which stay. */
    async write(): Promise<string[]> {
      const kept: string[] = []
      for (const [name, secret] of found) {
        const path = join(dataDir, name)
        const handle = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
          if (error.code !== 'EEXIST') throw error
        })
        if (handle) written.push(path)
        else if (!(await readFile(path)).equals(secret)) kept.push(name)
        await handle?.writeFile(secret)
        await handle?.sync()
        await handle?.close()
      }
      return kept
    },
    /** Removes the keys that write() created. */
    async remove(): Promise<void> {
      for (const path of written.splice(0)) await rm(path, { force: true })
    },
  }
}
