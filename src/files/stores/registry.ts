/** Registry of document stores. */
import type { Config } from '../../config/schema.ts'
import { ConfigError } from '../../errors.ts'
import type { FileStore, Markers } from '../../ports/file-store.ts'
import { folderMarkers } from '../folder-markers.ts'
import { storeFolder } from '../store-marker.ts'

interface StoreType {
  /** Opens the configured store. Throws ConfigError. */
  open(config: Config): Promise<FileStore>
  /** Returns the markers of the store without opening or creating it. */
  markers(config: Config): Promise<Markers>
}

export const stores: Readonly<Record<Config['storage']['kind'], StoreType>> = {
  disk: {
    open: async (config) => (await import('./disk.ts')).openDisk({ ...config.storage, path: storeFolder(config) }),
    markers: async (config) => folderMarkers(storeFolder(config)),
  },
  s3: {
    open: unavailable,
    markers: unavailable,
  },
}

/** Returns the markers of the configured store. */
export const storeMarkers = (config: Config): Promise<Markers> => stores[config.storage.kind].markers(config)

async function unavailable(): Promise<never> {
  throw new ConfigError(['storage.kind: this version stores documents in a folder only, not in S3'])
}
