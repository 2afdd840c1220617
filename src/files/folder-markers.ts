/** Markers in a folder. */
import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { flushFolder } from '../folders.ts'
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
  async write(name, text, { isNew = false } = {}) {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    // Another process may write the same marker.
    const partial = join(folder, `${name}.${randomUUID()}.partial`)
    try {
      await writeFile(partial, `${text}\n`, { flag: 'wx', mode: 0o600, flush: true })
      await (isNew ? linkNew : rename)(partial, join(folder, name))
    } finally {
      await rm(partial, { force: true })
    }
    await flushFolder(folder)
  },
  remove: (name) => rm(join(folder, name), { force: true }),
})

/** Gives a file a second name. Keeps an existing file of this name. */
async function linkNew(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') return
    // The file system has no hard links.
    await rename(from, to)
  })
}
