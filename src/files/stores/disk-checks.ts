/** Checks whether the volume of a document store is mounted, has free space, and is that of its temporary files. */
import { randomUUID } from 'node:crypto'
import { readFile, rename, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { shareRuns } from '../../concurrency.ts'
import { AppError, ConfigError } from '../../errors.ts'
import { nullIfMissing } from '../../missing-file.ts'
import { toStoreError } from '../staging.ts'
import { markerName } from '../store-marker.ts'

export interface DiskChecks {
  /** Throws SERVICE_UNAVAILABLE if the store is full, STORAGE_UNAVAILABLE if it is not mounted. */
  check(): Promise<void>
  /** Throws STORAGE_UNAVAILABLE if the store is not mounted. */
  requireMounted(): Promise<void>
  /** Returns undefined for ENOENT. Throws STORAGE_UNAVAILABLE if the store is not mounted, because its files still exist. Rethrows other errors. */
  undefinedIfMissing(error: NodeJS.ErrnoException): Promise<undefined>
}

const retrySecs = 300

/**
 * Opens the checks. A marker that differs from the store id means that the volume is not mounted. Without a store id, the marker that is found first
 * counts.
 */
export async function openDiskChecks(root: string, minFree: number, storeId: string | null): Promise<DiskChecks> {
  const readMarker = async () => (await readFile(join(root, markerName), 'utf8').catch(nullIfMissing))?.trim() ?? null
  let marker = storeId ?? (await readMarker())
  const requireMounted = async () => {
    const current = await readMarker()
    if (marker !== null && current !== marker)
      throw new AppError('STORAGE_UNAVAILABLE', { retry_after_secs: retrySecs }, 'The document store is not mounted.')
    marker = current
  }

  const check = async (): Promise<void> => {
    try {
      const { bavail, bsize } = await statfs(root)
      if (bavail * bsize < minFree)
        throw new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: retrySecs }, 'The document store is full.')
      await requireMounted()
    } catch (error) {
      throw toStoreError(error)
    }
  }
  return {
    check: shareRuns(check),
    requireMounted,
    async undefinedIfMissing(error) {
      if (error.code !== 'ENOENT') throw error
      await requireMounted()
      return undefined
    },
  }
}

/** Throws ConfigError if files of `tmpFolder` cannot be renamed into the store. Both folders exist. */
export async function requireSameFileSystem(root: string, tmpFolder: string): Promise<void> {
  const [store, tmp] = await Promise.all([stat(root), stat(tmpFolder)])
  const name = randomUUID()
  // Two mounts of one file system have the same device. Linux compares the mounts before it looks for the file.
  const code = await rename(join(tmpFolder, name), join(root, name)).catch((error) => error.code)
  if (store.dev === tmp.dev && code !== 'EXDEV') return
  throw new ConfigError([
    `storage.tmp_path: ${tmpFolder} is on another file system than ${root}; leave it empty, or name a folder on that file system`,
  ])
}
