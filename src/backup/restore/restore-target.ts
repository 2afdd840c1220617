/** Opens the destination of a restore to examine it, without changing it. */
import type { Config } from '../../config/schema.ts'
import { NoData } from '../../errors.ts'
import { storeFolder } from '../../files/store-marker.ts'
import { listFiles } from '../../files/stores/disk.ts'
import { stores } from '../../files/stores/registry.ts'
import type { Log } from '../../log/log.ts'
import { type Installation, type OpenedDatabase, openConfiguredDatabase } from '../../open-app.ts'
import type { FileStore } from '../../ports/file-store.ts'

export interface RestoreTarget extends Pick<Installation, 'config'> {
  /** null: there is no embedded database yet */
  readonly database: OpenedDatabase | null
  readonly files: Pick<FileStore, 'list'>
}

/** Opens the destination without creating anything. Throws ConfigError. */
export async function openRestoreTarget(config: Config, log: Log): Promise<RestoreTarget & { close(): Promise<void> }> {
  const storage = { ...config.storage, path: storeFolder(config) }
  const database = await openConfiguredDatabase(config, log, { isRestore: true }).catch((error: unknown) => {
    if (error instanceof NoData) return null
    throw error
  })
  // Opening a disk store would create its folder.
  const store = storage.kind === 'disk' ? null : await stores[storage.kind].open(config, null)
  const close = async () => {
    await store?.close()
    await database?.close()
  }
  return { config: { ...config, storage }, database, files: store ?? { list: () => listFiles(storage.path) }, close }
}
