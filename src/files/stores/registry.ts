/** Registry of document stores. */
import type { Config } from '../../config/schema.ts'
import { ConfigError } from '../../errors.ts'
import type { FileStore } from '../../ports/file-store.ts'

/** Opens the configured store. Throws ConfigError. */
export const stores = {
  disk: async (config: Config): Promise<FileStore> => (await import('./disk.ts')).openDisk(config.storage),
  s3: async (): Promise<FileStore> => {
    throw new ConfigError(['storage.kind: this version stores documents in a folder only, not in S3'])
  },
} satisfies Record<Config['storage']['kind'], (config: Config) => Promise<FileStore>>
