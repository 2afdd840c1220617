/** Continuous upload of new files in a folder. */
import { randomUUID } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../client/client.ts'
import type { Batch } from '../output/batch-output.ts'
import type { Cli } from '../runtime/context.ts'
import { exitOf } from '../runtime/exit.ts'
import { type FindOptions, type FoundFile, findFiles } from './find-files.ts'
import { openFolderEvents } from './folder-events.ts'
import { type UploadRun, uploadFiles } from './upload.ts'

export interface WatchOptions {
  readonly folder: string
  readonly find: FindOptions
  /** uploads a file after it has not changed for this time */
  readonly settleMs: number
  /** interval of scans; null: file system events and one scan per minute */
  readonly pollMs: number | null
  /** time until files are sent again after the server was unreachable */
  readonly retryMs: number
  readonly upload: UploadRun & { readonly batch: Batch }
  /** ends the watch */
  readonly signal: AbortSignal
}

interface FileState {
  /** size and times */
  readonly state: string
  /** performance.now() at the first scan that found this state */
  readonly sinceMs: number
  /** Idempotency-Key of its upload: a request without an answer may have created the document */
  readonly key: string
  readonly isDone: boolean
  /** state before the file could not be read */
  readonly readable?: FileState | undefined
}

/** `rescan`: in case events were lost; `fallbackPoll`: after events failed; `least`: between two scans while a file is being written. */
const intervalsMs = { rescan: 60_000, fallbackPoll: 30_000, least: 100 }

/** Uploads until `signal` aborts. Throws errors that a retry cannot fix. */
export async function watchFolder(cli: Cli, client: Client, options: WatchOptions): Promise<void> {
  const { signal, settleMs, retryMs } = options
  const changes = openChanges(cli, options)
  let states = new Map<string, FileState>()
  const { batch } = options.upload
  const add: Batch['add'] = (item, line) => {
    const state = states.get(item.key)
    if (state) states.set(item.key, { ...state, isDone: true })
    batch.add(item, line)
  }
  const keyOf = ({ path }: FoundFile): string => states.get(path)?.key ?? randomUUID()
  const upload: UploadRun = { ...options.upload, batch: { ...batch, add }, keyOf }
  try {
    while (!signal.aborted) {
      changes.reset()
      const files = await findFiles([options.folder], options.find)
      // The file system of the folder may have been unmounted: when it is back, its files are the same.
      const isUnmounted = files.length === 0 && upload.afterUpload.isKept
      states = isUnmounted ? states : updateStates(files, states, options)
      // Unreadable files are reported once by the upload, until their state changes.
      const ready = files.filter(({ path }) => isReady(states.get(path), settleMs))
      const isUnreachable = ready.length > 0 && !(await tryUpload(cli, () => uploadFiles(cli, client, ready, upload), retryMs))
      if (isUnreachable) await sleep(retryMs, undefined, { signal }).catch(() => {})
      else await changes.wait(Math.min(changes.maxWaitMs, oldestPendingMs(files, states) + settleMs - performance.now()))
    }
  } finally {
    changes.close()
  }
}

/** Returns the earliest `sinceMs` of the files that are not done; infinity if all are. */
function oldestPendingMs(files: readonly FoundFile[], states: ReadonlyMap<string, FileState>): number {
  const pending = files.flatMap(({ path }) => states.get(path) ?? []).filter(({ isDone }) => !isDone)
  return pending.reduce((least, { sinceMs }) => Math.min(least, sinceMs), Number.POSITIVE_INFINITY)
}

/**
 * Updates the states of the files. Age before the first scan counts towards `settleMs`. A file or folder that cannot be read keeps its states: they are
 * valid again once it can be read. A new status change time alone, as after `chmod`, counts only if known content is not stored again.
 */
function updateStates(
  files: readonly FoundFile[],
  before: ReadonlyMap<string, FileState>,
  { settleMs, upload: { shouldSkipKnown } }: Pick<WatchOptions, 'settleMs' | 'upload'>,
): Map<string, FileState> {
  const now = performance.now()
  const states = new Map<string, FileState>()
  const unreadable = new Set<string>()
  for (const { path, size, mtimeNs, ctimeNs, changedMs, error } of files) {
    const state = `${size} ${mtimeNs} ${shouldSkipKnown ? ctimeNs : ''}`
    const previous = before.get(path)
    const known = [previous, previous?.readable].find((candidate) => candidate?.state === state)
    const sinceMs = previous ? now : now - Math.min(settleMs, Math.max(0, Date.now() - changedMs))
    const readable = error ? previous : undefined
    states.set(path, known ?? { state, sinceMs, key: randomUUID(), isDone: false, readable })
    if (error) unreadable.add(resolve(path))
  }
  for (const [path, state] of before) if (!states.has(path) && isBelow(path, unreadable)) states.set(path, state)
  return states
}

/** Returns whether the path lies below one of the folders, which are absolute. */
function isBelow(path: string, folders: ReadonlySet<string>): boolean {
  if (folders.size === 0) return false
  for (let folder = dirname(resolve(path)); ; folder = dirname(folder)) {
    if (folders.has(folder)) return true
    if (folder === dirname(folder)) return false
  }
}

const isReady = (file: FileState | undefined, settleMs: number): boolean =>
  file !== undefined && !file.isDone && performance.now() - file.sinceMs >= settleMs

/** Returns false if the server is unreachable. */
async function tryUpload(cli: Cli, send: () => Promise<void>, retryMs: number): Promise<boolean> {
  try {
    await send()
    return true
  } catch (error) {
    if (exitOf(error) !== 'UNAVAILABLE') throw error
    cli.warn(`${(error as Error).message}; trying again in ${retryMs / 1000} s`)
    return false
  }
}

/** Waits for file system events or a timeout. */
function openChanges(cli: Cli, { folder, pollMs, signal }: WatchOptions) {
  let hasChanged = false
  let wake = (): void => {}
  let maxWaitMs = pollMs ?? intervalsMs.rescan
  const onChange = (): void => {
    hasChanged = true
    wake()
  }
  const onError = (error: Error): void => {
    cli.warn(`file system events of ${folder} failed (${error.message}); scanning every ${intervalsMs.fallbackPoll / 1000} s`)
    maxWaitMs = intervalsMs.fallbackPoll
  }
  const events = pollMs === null ? openFolderEvents(folder, onChange, onError) : null
  return {
    get maxWaitMs() {
      return maxWaitMs
    },
    reset() {
      hasChanged = false
    },
    /** Resolves after a change, on abort of `signal`, or after `ms`, and not before the least interval has passed. */
    async wait(ms: number): Promise<void> {
      const changed = new AbortController()
      wake = () => changed.abort()
      const pause = (duration: number, end = signal) =>
        sleep(duration, undefined, { signal: AbortSignal.any([signal, end]) }).catch(() => {})
      await pause(intervalsMs.least)
      if (!hasChanged) await pause(Math.max(0, ms - intervalsMs.least), changed.signal)
    },
    close: () => events?.close(),
  }
}
