/** Markers in a folder. */
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { flushFolder } from '../flush-folder.ts'
import type { Markers } from '../ports/file-store.ts'

export const folderMarkers = (folder: string): Markers => ({
  kind: 'disk',
  location: folder,
  read: async (name) =>
    (
      await readFile(join(folder, name), 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
        return ''
      })
    ).trim(),
  async write(name, text) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
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
  },
  remove: (name) => rm(join(folder, name), { force: true }),
})
