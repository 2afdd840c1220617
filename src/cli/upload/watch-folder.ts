/** Continuous upload of new files in a folder. */
import { type FSWatcher, watch } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { exitOf } from '../runtime/exit.ts'
import { type FindOptions, type FoundFile, findFiles } from './find-files.ts'
import { type UploadRun, uploadFiles } from './upload.ts'

export interface WatchOptions {
  readonly folder: string
  readonly find: FindOptions
  /** uploads a file after it has not changed for this time */
  readonly settleMs: number
  /** interval of scans; null: file system events and one scan per minute */
  readonly pollMs: number | null
  readonly upload: UploadRun
  /** ends the watch */
  readonly signal: AbortSignal
}

interface FileState {
  /** size and modification time */
  readonly state: string
  /** first seen in this state, by performance.now() */
  readonly sinceMs: number
  readonly isDone: boolean
}

/** Intervals: rescan against lost events, retry while the server is down, polling after events failed. */
const intervalsMs = { rescan: 60_000, serverDown: 30_000, fallbackPoll: 30_000 }

/** Uploads until `signal` aborts. Throws errors that a retry cannot fix. */
export async function watchFolder(cli: Cli, client: Client, watching: WatchOptions): Promise<void> {
  const { signal, settleMs: settle, upload: uploading } = watching
  const changes = openChanges(cli, watching)
  let seen = new Map<string, FileState>()
  try {
    while (!signal.aborted) {
      changes.forget()
      const files = await findFiles([watching.folder], watching.find)
      seen = updateStates(files, seen, settle)
      const ready = files.filter(({ path, error: problem }) => !problem && isReady(seen.get(path), settle))
      const isAway = ready.length > 0 && !(await tryUpload(cli, client, ready, uploading))
      if (isAway) await sleep(intervalsMs.serverDown, undefined, { signal }).catch(() => {})
      else {
        for (const { path } of ready) seen.set(path, { ...(seen.get(path) as FileState), isDone: true })
        const waits = [...seen.values()].filter(({ isDone }) => !isDone).map(({ sinceMs: since }) => since + settle - performance.now())
        await changes.next(Math.max(50, Math.min(changes.longest, ...waits)))
      }
    }
  } finally {
    changes.close()
  }
}

/** Updates the states of the files. Age before the first scan counts towards `settleMs`. */
function updateStates(files: readonly FoundFile[], before: ReadonlyMap<string, FileState>, settle: number): Map<string, FileState> {
  const now = performance.now()
  return new Map(
    files.map(({ path, size, mtimeNs }) => {
      const state = `${size} ${mtimeNs}`
      const known = before.get(path)
      const age = Date.now() - Number(BigInt(mtimeNs) / 1_000_000n)
      return [
        path,
        known?.state === state ? known : { state, sinceMs: known ? now : now - Math.min(settle, Math.max(0, age)), isDone: false },
      ]
    }),
  )
}

const isReady = (seen: FileState | undefined, settle: number): boolean =>
  seen !== undefined && !seen.isDone && performance.now() - seen.sinceMs >= settle

/** Uploads the files. Returns false if the server is unreachable. */
async function tryUpload(cli: Cli, client: Client, files: readonly FoundFile[], uploading: UploadRun): Promise<boolean> {
  try {
    await uploadFiles(cli, client, files, uploading)
    return true
  } catch (error) {
    if (exitOf(error) !== 'UNAVAILABLE') throw error
    cli.warn(`${(error as Error).message}; trying again in ${intervalsMs.serverDown / 1000} s`)
    return false
  }
}

/** Waits for file system events or a timeout. */
function openChanges(cli: Cli, { folder, pollMs: poll, signal }: WatchOptions) {
  let hasChanged = false
  let wake = (): void => {}
  let longest = poll ?? intervalsMs.rescan
  const change = (): void => {
    hasChanged = true
    wake()
  }
  const watcher = poll === null ? open(folder, change) : null
  watcher?.on('error', (error) => {
    cli.warn(`the system tells of no changes any more (${error.message}); looking every ${intervalsMs.fallbackPoll / 1000} s`)
    longest = intervalsMs.fallbackPoll
  })
  return {
    get longest() {
      return longest
    },
    forget() {
      hasChanged = false
    },
    /** Resolves after a change, on abort of `signal`, or after `ms`. */
    async next(ms: number): Promise<void> {
      if (hasChanged || signal.aborted) return
      const told = new AbortController()
      wake = () => told.abort()
      await sleep(ms, undefined, { signal: AbortSignal.any([told.signal, signal]) }).catch(() => {})
    },
    close: () => watcher?.close(),
  }
}

const open = (folder: string, change: () => void): FSWatcher => watch(folder, { recursive: true }, change)
