/**
 * Cache of stored files on the local disk, for programs that need a path. Bounded in bytes; the file that was not used for the longest time
 * goes first. All processes of a data folder share it.
 */
import { link, mkdir, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { addressPattern, FileMissing, sha256Of } from '../../../ports/file-store.ts'
import { openStaging, type Staging, toStoreError } from '../../staging.ts'

export interface ReadCache {
  /** Returns a local path with the bytes of a file, valid until `release()`. Calls `fetch` for a file that is not in the cache. */
  open(address: string, fetch: () => Promise<Readable>): Promise<{ path: string; release(): Promise<void> }>
}

/** Opens the cache. Its folder is created with its first file. */
export function openReadCache(folder: string, maxBytes: number): ReadCache {
  let staging: Promise<Staging> | null = null
  /** bytes added since the last eviction. The initial value makes the first eviction count the files of earlier processes */
  let addedBytes = maxBytes

  const openOnce = (): Promise<Staging> => {
    staging ??= openStaging({ folder, fsync: true })
    staging.catch(() => {
      staging = null
    })
    return staging
  }
  const add = async (path: string, address: string, size: number) => {
    if (size > maxBytes / 2) return
    addedBytes += size
    if (addedBytes > maxBytes / 8) {
      addedBytes = 0
      await evict(folder, maxBytes - maxBytes / 4)
    }
    // Flushed: after a power failure the name exists only with all bytes. Another process may have been first.
    await link(path, join(folder, address)).catch(() => {})
  }

  const write = async (own: Staging, source: Readable) => {
    try {
      // The folder may have been removed: it is only a cache.
      await mkdir(folder, { recursive: true, mode: 0o700 })
      return await own.write(source, Number.MAX_SAFE_INTEGER)
    } catch (error) {
      // Otherwise its connection stays open.
      source.destroy()
      throw error
    }
  }

  return {
    async open(address, fetch) {
      try {
        const own = await openOnce()
        const path = own.linkPath()
        const release = () => own.removeLink(path)
        const entry = join(folder, address)
        const isCached = await link(entry, path).then(
          () => true,
          () => false,
        )
        if (isCached) {
          const now = (performance.timeOrigin + performance.now()) / 1000
          await utimes(path, now, now).catch(() => {})
          return { path, release }
        }
        const staged = await write(own, await fetch())
        // The server sent other bytes than were stored.
        if (staged.sha256 !== sha256Of(address)) {
          await rm(staged.path, { force: true })
          throw new FileMissing(address)
        }
        await rename(staged.path, path)
        await add(path, address, staged.size)
        return { path, release }
      } catch (error) {
        throw toStoreError(error)
      }
    },
  }
}

/** Removes the files that were not used for the longest time, until the others have at most `maxBytes`. */
async function evict(folder: string, maxBytes: number): Promise<void> {
  const files: { path: string; size: number; usedAtMs: number }[] = []
  for (const name of await readdir(folder)) {
    if (!addressPattern.test(name)) continue
    const path = join(folder, name)
    const stats = await stat(path).catch(() => null)
    if (stats) files.push({ path, size: stats.size, usedAtMs: stats.mtimeMs })
  }
  let total = files.reduce((sum, { size }) => sum + size, 0)
  for (const { path, size } of files.sort((a, b) => a.usedAtMs - b.usedAtMs)) {
    if (total <= maxBytes) return
    await rm(path, { force: true })
    total -= size
  }
}
