/** State of the document stores of an archive. */
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { FileStore, StoreKind } from '../ports/file-store.ts'

export interface StoreStatus {
  readonly store: StoreKind
  /** new files go to the primary */
  readonly role: 'primary' | 'secondary'
  /** unused: the archive has no such store */
  readonly state: 'available' | 'unavailable' | 'unused'
  /** folder or URL; null: not configured */
  readonly location: string | null
  readonly files: number | null
  readonly bytes: number | null
  readonly derived_files: number | null
  readonly derived_bytes: number | null
  readonly error: string | null
}

/** Describes each store, with the numbers of its files. Lists all of them. */
export async function describeStores({ stores }: Pick<App, 'stores'>, signal?: AbortSignal): Promise<StoreStatus[]> {
  const kinds: StoreKind[] = ['disk', 's3']
  return Promise.all(
    kinds.map(async (store) => {
      const role = store === stores.primary ? ('primary' as const) : ('secondary' as const)
      const location = stores.locate(store)
      const about = { store, role, location, files: null, bytes: null, derived_files: null, derived_bytes: null, error: null }
      try {
        const opened = await stores.open(store)
        if (opened === null) return { ...about, state: 'unused' as const }
        await opened.check()
        return { ...about, state: 'available' as const, ...(await countStored(opened, signal)) }
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        return { ...about, state: 'unavailable' as const, error: error.message }
      }
    }),
  )
}

async function countStored(store: FileStore, signal?: AbortSignal) {
  const stored = await countFiles(store.list(), signal)
  const derived = await countFiles(store.listDerived(), signal)
  return { ...stored, derived_files: derived.files, derived_bytes: derived.bytes }
}

/** Counts files and their bytes. */
export async function countFiles(list: AsyncIterable<{ readonly size: number }>, signal?: AbortSignal) {
  let [files, bytes] = [0, 0]
  for await (const { size } of list) {
    signal?.throwIfAborted()
    files++
    bytes += size
  }
  return { files, bytes }
}
