/**
 * Moves the files of an archive from one document store to the other, while servers and workers run. Each file is copied, its SHA-256 is compared,
 * and only then it is removed from its old store. After a crash, the next run continues with the interrupted step.
 */
import type { App } from '../app.ts'
import { mapConcurrently } from '../concurrency.ts'
import { type HeldLock, LockLost, withLock } from '../db/lock.ts'
import { ConfigError } from '../errors.ts'
import { type DerivedFile, FileMissing, type FileStore, type StoreKind, sha256Of } from '../ports/file-store.ts'
import { listDerived, listFiles, type RetryOptions, retry } from './retry.ts'
import { countFiles } from './store-status.ts'
import { isOutage, readSum, wholeFile } from './stores/secondary.ts'
import { otherKind } from './used-stores.ts'

export interface MigrationOptions extends RetryOptions {
  readonly to: StoreKind
  /** reads each copy back and compares its SHA-256, in addition to the checksums of the store */
  readonly verify: boolean
  /** keeps the files in the old store */
  readonly keep: boolean
  readonly isDryRun: boolean
  /** maximum wait for another migration, in milliseconds */
  readonly lockTimeoutMs: number
  /** waits before `bytes` are copied, to limit the rate */
  throttle(bytes: number, signal: AbortSignal): Promise<void>
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
  onFailure(address: string, error: Error, bytes: number): void
}

/** Files by result, with their bytes. */
export type MigrationCounts = Record<'moved' | 'copied' | 'unchanged' | 'skipped', { files: number; bytes: number }>

/** Concurrent copies. A store in the network has a latency of milliseconds for each file. */
const concurrency = 8

interface Migration {
  readonly app: App
  readonly source: FileStore
  readonly target: FileStore
  readonly lock: HeldLock
  readonly options: MigrationOptions
}

/** Moves all files to the store `to`, and adds them to `counts`. A file that fails is reported and skipped. Throws Busy, ConfigError, STORAGE_UNAVAILABLE, LockLost. */
export function migrateStore(app: App, counts: MigrationCounts, options: MigrationOptions): Promise<void> {
  const migrateAll = async (lock: HeldLock): Promise<void> => {
    const from = otherKind[options.to]
    if (app.stores.locate(options.to) === null)
      throw new ConfigError(['storage.s3_bucket is not set: it names the bucket of the document store'])
    const source = await app.stores.open(from)
    if (source === null) return
    if (options.isDryRun) return countPlanned(app, source, counts, options)
    const total = await countAll(source, options)
    const progress = { done: 0, total: total.files, bytes: 0, totalBytes: total.bytes }
    const migration = { app, source, target: await app.stores.create(options.to), lock, options }
    let failed = 0
    const skipped = new Set<string>()
    const run = async (key: string, size: number, work: () => Promise<keyof MigrationCounts>) => {
      try {
        const result = await retry(work, options)
        // The second pass finds files without a row again.
        if (result === 'skipped' && skipped.has(key)) return
        if (result === 'skipped') skipped.add(key)
        counts[result].files++
        counts[result].bytes += size
      } catch (error) {
        if (options.signal.aborted || isOutage(error) || error instanceof LockLost) throw error
        failed++
        options.onFailure(key, error as Error, size)
      }
      progress.done++
      progress.bytes += size
      progress.total = Math.max(progress.total, progress.done)
      progress.totalBytes = Math.max(progress.totalBytes, progress.bytes)
      options.onProgress(progress)
    }
    const moveAll = () =>
      mapConcurrently(
        listFiles(source, options),
        concurrency,
        ({ address, size }) => run(address, size, () => moveFile(migration, address, size)),
        options.signal,
      )
    await moveAll()
    await mapConcurrently(
      derivedGroups(listDerived(source, options)),
      concurrency,
      (group) => moveDerived(migration, group, run),
      options.signal,
    )
    if (options.keep || failed > 0 || app.stores.primary !== options.to) return
    // Servers that had not been restarted yet may have written to the old store meanwhile.
    await moveAll()
    const left = await countAll(source, options)
    if (failed === 0 && left.files === 0) await app.stores.retire(from)
  }
  return withLock(app.database, 'storage migrate', options.lockTimeoutMs, migrateAll, { signal: options.signal })
}

/** Returns empty counts. */
export const zeroCounts = (): MigrationCounts => ({ moved: zero(), copied: zero(), unchanged: zero(), skipped: zero() })

const zero = () => ({ files: 0, bytes: 0 })

/** Counts what a migration would do, without reading files. */
async function countPlanned(app: App, source: FileStore, counts: MigrationCounts, options: MigrationOptions): Promise<void> {
  const add = (result: keyof MigrationCounts, size: number): void => {
    counts[result].files++
    counts[result].bytes += size
  }
  const moved = options.keep ? 'copied' : 'moved'
  const target = options.keep ? await app.stores.open(options.to) : null
  const countFile = async ({ address, size }: { address: string; size: number }): Promise<void> => {
    if (!(await hasRow(app, address))) return add('skipped', size)
    add((await target?.size(address)) === size ? 'unchanged' : moved, size)
  }
  await mapConcurrently(listFiles(source, options), concurrency, countFile, options.signal)
  for await (const { size } of listDerived(source, options)) add(moved, size)
}

/** Counts stored and derived files. */
async function countAll(store: FileStore, options: MigrationOptions): Promise<{ files: number; bytes: number }> {
  const stored = await countFiles(listFiles(store, options), options.signal)
  const derived = await countFiles(listDerived(store, options), options.signal)
  return { files: stored.files + derived.files, bytes: stored.bytes + derived.bytes }
}

/**
 * Copies a file unless its target is intact, then removes the original. `skipped`: the file was purged meanwhile, or has no row. A file without a row
 * may be of a killed upload, whose cleanup looks in one store only.
 */
async function moveFile(migration: Migration, address: string, size: number): Promise<keyof MigrationCounts> {
  const { app, source, lock, options } = migration
  if (!(await hasRow(app, address))) return 'skipped'
  const isKnown = await isInTarget(migration, address, size)
  if (!isKnown && !(await copyFile(migration, address, size))) return 'skipped'
  if (options.keep) return isKnown ? 'unchanged' : 'copied'
  // After a lost lock, a migration in the other direction may rely on this original.
  await lock.assertHeld()
  await source.remove(address)
  return 'moved'
}

const hasRow = async ({ db }: App, address: string): Promise<boolean> =>
  (await db.selectFrom('stored_files').select('sha256').where('address', '=', address).executeTakeFirst()) !== undefined

/**
 * Returns whether an earlier run has copied the file. Reads the copy; with `keep` and without `verify`, takes one of the size of the original for
 * intact. Removes a damaged copy.
 */
async function isInTarget({ target, options }: Migration, address: string, size: number): Promise<boolean> {
  const copiedSize = await target.size(address)
  if (copiedSize === null) return false
  if (options.keep && !options.verify && copiedSize === size) return true
  // Neither a folder nor S3 tells the SHA-256 of a file without reading it. Of two sizes, that of the original may be the wrong one.
  if ((await readSum(target, address)) === sha256Of(address)) return true
  await target.remove(address)
  return false
}

/** Copies a file. Returns false if it was purged meanwhile. Throws if the original is damaged, or the copy differs. */
async function copyFile({ app, source, target, options }: Migration, address: string, size: number): Promise<boolean> {
  const original = await source.read(address, wholeFile(size)).catch((error: unknown) => {
    if (error instanceof FileMissing) return null
    throw toFileError(error)
  })
  if (original === null) return false
  const [, generation = ''] = address.split('.')
  // A store that fails before it reads leaves the original open.
  const staged = await target.stage(throttled(original, options), Number.MAX_SAFE_INTEGER, generation).finally(() => original.destroy())
  try {
    if (staged.address !== address) {
      // The bytes may be those of another file. In S3 they have one address: discard() would remove that file.
      if (await hasRow(app, staged.address)) await staged.commit()
      throw new Error(`the stored file is corrupt: its SHA-256 is ${staged.sha256}`)
    }
    await staged.commit()
    if (options.verify && (await readSum(target, address)) !== staged.sha256) {
      await target.remove(address)
      throw new Error('the copy differs from the original')
    }
    // A purge removes the file from both stores. It may have removed the original before the copy had a name.
    const isPurged = (await source.size(address)) === null
    if (isPurged) await target.remove(address)
    await staged.confirm()
    return !isPurged
  } finally {
    await staged.discard()
  }
}

/** Yields the bytes of an original at the limited rate. Throws errors of the file system as errors of this file, not of its store. */
async function* throttled(original: AsyncIterable<Uint8Array>, { throttle, signal }: MigrationOptions): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of original) {
      await throttle(chunk.length, signal)
      yield chunk
    }
  } catch (error) {
    throw toFileError(error)
  }
}

/** Converts an error of the file system, such as EIO, to an error of this file. */
function toFileError(error: unknown): unknown {
  const { syscall, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException
  return syscall === undefined ? error : new Error(`the stored file cannot be read: ${message}`)
}

/** Yields the derived files of one SHA-256 at a time. */
async function* derivedGroups(files: AsyncIterable<DerivedFile>): AsyncGenerator<DerivedFile[]> {
  let group: DerivedFile[] = []
  for await (const file of files) {
    if (group[0] && group[0].key.sha256 !== file.key.sha256) {
      yield group
      group = []
    }
    group.push(file)
  }
  if (group.length > 0) yield group
}

/** Moves the derived files of one SHA-256. Removes them if the file itself was purged. */
async function moveDerived(
  { app, source, target, options }: Migration,
  group: readonly DerivedFile[],
  run: (key: string, size: number, work: () => Promise<keyof MigrationCounts>) => Promise<void>,
): Promise<void> {
  const { sha256 } = group[0]!.key
  const isStored = async () =>
    (await app.db.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).executeTakeFirst()) !== undefined
  for (const { key, name, size } of group) {
    await run(`${sha256} ${name}`, size, async () => {
      const bytes = (await isStored()) ? await source.readDerived(key, name) : null
      if (bytes === null) return 'skipped'
      await options.throttle(bytes.length, options.signal)
      await target.writeDerived(key, name, bytes)
      return options.keep ? 'copied' : 'moved'
    })
  }
  if (!options.keep) await retry(() => source.removeDerived(sha256), options)
  if (!(await isStored())) await retry(() => target.removeDerived(sha256), options)
}
