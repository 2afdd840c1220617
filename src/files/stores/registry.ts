/** Registry of document stores. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../../config/schema.ts'
import type { FileStore, Markers } from '../../ports/file-store.ts'
import { folderMarkers } from '../folder-markers.ts'
import { storeFolder } from '../store-marker.ts'

interface StoreType {
  /** Opens the configured store. `storeId`: text of its marker, null to accept any. Throws ConfigError. */
  open(config: Config, storeId: string | null): Promise<FileStore>
  /** Returns the markers of the store without opening or creating it. */
  markers(config: Config): Promise<Markers>
}

export const stores: Readonly<Record<Config['storage']['kind'], StoreType>> = {
  disk: {
    async open(config, storeId) {
      const { openDisk } = await import('./disk.ts')
      const store = await openDisk({ ...config.storage, path: storeFolder(config) }, storeId)
      // A secondary store is only read, unless a migration fills it.
      if (config.storage.kind === 'disk') await checkTmpPath(config)
      return store
    },
    markers: async (config) => folderMarkers(storeFolder(config)),
  },
  s3: {
    async open(config, storeId) {
      const folder = join(config.data_dir, 'tmp')
      // Earlier releases did not flush their cache: its files may be incomplete since a power failure.
      await rm(join(folder, 's3-cache'), { recursive: true, force: true }).catch(() => {})
      return (await import('./s3/s3.ts')).openS3Store(config, join(folder, 's3-read-cache'), storeId)
    },
    markers: async (config) => (await import('./s3/s3.ts')).s3Markers(config),
  },
}

/** Returns the markers of the configured store. */
export const storeMarkers = (config: Config): Promise<Markers> => stores[config.storage.kind].markers(config)

/** Throws ConfigError if files of `storage.tmp_path` cannot be renamed into the folder of the store. It has been opened. */
export async function checkTmpPath(config: Config): Promise<void> {
  const { requireSameFileSystem } = await import('./disk-checks.ts')
  if (config.storage.tmp_path !== '') await requireSameFileSystem(storeFolder(config), config.storage.tmp_path)
}
