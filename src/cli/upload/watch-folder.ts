/** A folder whose new files are uploaded as they come. */
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
  /** milliseconds that a file must not have changed for */
  readonly settleMs: number
  /** milliseconds between two looks; null: as the system tells of changes, and once a minute */
  readonly pollMs: number | null
  readonly upload: UploadRun
  /** ends it */
  readonly signal: AbortSignal
}

interface FileState {
  /** size and time */
  readonly state: string
  /** milliseconds of performance.now() */
  readonly sinceMs: number
  readonly isDone: boolean
}

/** Milliseconds: the system may lose changes; and a server that is away is left alone for a while. */
const intervalsMs = { rescan: 60_000, serverDown: 30_000, fallbackPoll: 30_000 }

/** Uploads until `signal`. Throws what no later try could mend. */
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

/** What is known of the files that there are now; those that had rested before they were first seen need not rest again. */
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

/** False while the server is away. */
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

/** Waits for changes: told by the system, or simply for a while. */
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
    /** Until something changes, `signal` comes, or `ms` are over. */
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
