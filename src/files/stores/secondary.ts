/**
 * Two document stores as one. New files go to the primary store. A file missing there is looked for in the secondary store. A migration moves files
 * one by one, in either direction: see src/files/store-migration.ts.
 */
import { AppError } from '../../errors.ts'
import { hashStream } from '../../hash-stream.ts'
import { FileMissing, type FileStore, nullIfNotStored, type StagedFile } from '../../ports/file-store.ts'
import { mergeByAddress } from '../address.ts'

/** Opens the secondary store; null if there is none. Throws AppError STORAGE_UNAVAILABLE. */
export type SecondaryOpener = () => Promise<FileStore | null>

/** Returns a store of both. While the secondary is unavailable, files of the primary can be read, and a file in neither is STORAGE_UNAVAILABLE instead of missing. */
export function withSecondary(primary: FileStore, openSecondary: SecondaryOpener): FileStore {
  const secondary: SecondaryOpener = () => openSecondary().catch(throwUnavailable)

  /** Returns the answer of the first store that has the file. Throws FileMissing and STORAGE_UNAVAILABLE. */
  const find = async <T>(ask: (store: FileStore) => Promise<T>): Promise<T> => {
    const first = await attempt(() => ask(primary))
    if ('answer' in first) return first.answer
    const second = await attempt(async () => {
      const store = await secondary()
      if (store === null) throw first.error
      return ask(store).catch(throwUnavailable)
    })
    if ('answer' in second) return second.answer
    if (second.error === first.error || isOutage(first.error)) throw first.error
    if (isOutage(second.error)) throw second.error
    // A migration may have moved the file to the primary between the two questions.
    return ask(primary)
  }

  /**
   * Changes both stores, the primary twice, because a migration may copy the file there meanwhile. A migration in the other direction notices the
   * missing original and removes its copy.
   */
  const changeBoth = async (change: (store: FileStore) => Promise<void>): Promise<void> => {
    const failures: unknown[] = []
    const other = await secondary().catch((error) => void failures.push(error))
    for (const store of other ? [primary, other, primary] : [primary]) await change(store).catch((error) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  }

  return {
    async stage(source, maxSize, generation) {
      const staged = await primary.stage(source, maxSize, generation)
      const comparisons = new Map<string, Promise<boolean>>()
      return {
        ...staged,
        equals(address) {
          const isEqual = comparisons.get(address) ?? compare(staged, address, primary, secondary)
          comparisons.set(address, isEqual)
          return isEqual
        },
      }
    },
    read: (address, range) => find((store) => store.read(address, range)),
    openLocal: (address) => find((store) => store.openLocal(address)),
    // A file of the secondary may be moved before the URL is used.
    presign: (address, seconds, headers) => primary.presign(address, seconds, headers),
    describeLocation: (address) => primary.describeLocation(address),
    size: (address) => find(async (store) => (await store.size(address)) ?? throwMissing(address)).catch(nullIfNotStored),
    remove: (address) => changeBoth((store) => store.remove(address)),
    list: (onUnreadable) => listBoth(primary, secondary, onUnreadable),
    async quarantine(address) {
      const locations: string[] = []
      await changeBoth(async (store) => {
        const location = await store.quarantine(address).catch(nullIfNotStored)
        if (location !== null) locations.push(location)
      })
      return locations[0] ?? throwMissing(address)
    },
    // A derived file that cannot be read is made again.
    readDerived: async (key, name) =>
      (await primary.readDerived(key, name)) ??
      (await secondary()
        .then((store) => store?.readDerived(key, name))
        .catch(() => null)) ??
      null,
    writeDerived: (key, name, bytes) => primary.writeDerived(key, name, bytes),
    removeDerived: (sha256) => changeBoth((store) => store.removeDerived(sha256)),
    listDerived: () => primary.listDerived(),
    async listUncommitted() {
      const other = await secondary()
        .then((store) => store?.listUncommitted())
        .catch(() => [])
      return [...(await primary.listUncommitted()), ...(other ?? [])]
    },
    check: () => primary.check(),
    close: () => primary.close(),
  }
}

type Attempt<T> = { answer: T } | { error: unknown }

/** Returns the answer, or the error if another store may have the file. */
async function attempt<T>(ask: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { answer: await ask() }
  } catch (error) {
    if (error instanceof FileMissing || isOutage(error)) return { error }
    throw error
  }
}

/** Returns whether an error means that a store was unavailable. The file may exist there. */
export const isOutage = (error: unknown): boolean => error instanceof AppError && error.status === 503

/**
 * Compares staged bytes with a file of either store. Hashes a file of the secondary store. The result is `different` while that store is unavailable.
 */
async function compare(staged: StagedFile, address: string, primary: FileStore, openSecondary: SecondaryOpener): Promise<boolean> {
  if ((await primary.size(address)) === null) {
    const isEqual = await openSecondary()
      .then(async (store) => store && (await readSum(store, address)) === staged.sha256)
      .catch((error) => (isOutage(error) ? false : nullIfNotStored(error)))
    if (isEqual !== null) return isEqual
  }
  return staged.equals(address)
}

/** Returns the SHA-256 of a stored file. Throws FileMissing. */
export async function readSum(store: FileStore, address: string): Promise<string> {
  const size = (await store.size(address)) ?? throwMissing(address)
  return hashStream(await store.read(address, wholeFile(size)))
}

/** Returns the range of a whole file; undefined for an empty one. Without an end, a stream allocates a large buffer even for a small file. */
export const wholeFile = (size: number): { start: number; end: number } | undefined => (size > 0 ? { start: 0, end: size - 1 } : undefined)

/** Yields the files of both stores, each once, in order of address. */
async function* listBoth(
  primary: FileStore,
  openSecondary: SecondaryOpener,
  onUnreadable?: (location: string) => void,
): ReturnType<FileStore['list']> {
  const other = await openSecondary().catch((error) => {
    if (!onUnreadable || !isOutage(error)) throw error
    onUnreadable('of the secondary document store')
    return null
  })
  if (other === null) return yield* primary.list(onUnreadable)
  let last = ''
  for await (const file of mergeByAddress(primary.list(onUnreadable), other.list(onUnreadable))) {
    if (file.address !== last) yield file
    last = file.address
  }
}

function throwMissing(address: string): never {
  throw new FileMissing(address)
}

/** Reports an outage of the secondary store as STORAGE_UNAVAILABLE, because the primary works. */
function throwUnavailable(error: unknown): never {
  if (!isOutage(error) || (error as AppError).code === 'STORAGE_UNAVAILABLE') throw error
  throw Object.assign(new AppError('STORAGE_UNAVAILABLE', { retry_after_secs: 60 }), { cause: error })
}
