/** The keys that dms made for itself below the data folder, out of a backup. */
import { open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { secretNames } from '../create/create.ts'

export function restoredSecrets(dataDir: string) {
  const found = new Map<string, Buffer>()
  const written: string[] = []
  return {
    add(name: string, secret: Buffer) {
      if (secretNames.some((known) => known === name)) found.set(name, secret)
    },
    /** `path`: of its entry in the backup */
    drop: (path: string) => void found.delete(path.slice(path.lastIndexOf('/') + 1)),
    /** Puts them where there are none; returns the names of others that were there, and stay. */
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
    /** Removes those that write() has put. */
    async remove(): Promise<void> {
      for (const path of written.splice(0)) await rm(path, { force: true })
    },
  }
}
