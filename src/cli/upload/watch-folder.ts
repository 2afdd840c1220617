/** A folder whose new files are uploaded as they come. */
import { type FSWatcher, watch } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { exitOf } from '../runtime/exit.ts'
import { type FindOptions, type FoundFile, findFiles } from './find-files.ts'
import { type Uploading, upload } from './upload.ts'

export interface Watching {
  readonly folder: string
  readonly find: FindOptions
  /** milliseconds that a file must not have changed for */
  readonly settle: number
  /** milliseconds between two looks; null: as the system tells of changes, and once a minute */
  readonly poll: number | null
  readonly uploading: Uploading
  /** ends it */
  readonly signal: AbortSignal
}

interface Seen {
  /** size and time */
  readonly state: string
  /** milliseconds of performance.now() */
  readonly since: number
  readonly isDone: boolean
}

/** Milliseconds: the system may lose changes; and a server that is away is left alone for a while. */
const pauses = { told: 60_000, away: 30_000, unasked: 30_000 }

/** Uploads until `signal`. Throws what no later try could mend. */
export async function watchFolder(cli: Cli, client: Client, watching: Watching): Promise<void> {
  const { signal, settle, uploading } = watching
  const changes = openChanges(cli, watching)
  let seen = new Map<string, Seen>()
  try {
    while (!signal.aborted) {
      changes.forget()
      const files = await findFiles([watching.folder], watching.find)
      seen = after(files, seen, settle)
      const ready = files.filter(({ path, problem }) => !problem && isReady(seen.get(path), settle))
      const isAway = ready.length > 0 && !(await uploadNow(cli, client, ready, uploading))
      if (isAway) await sleep(pauses.away, undefined, { signal }).catch(() => {})
      else {
        for (const { path } of ready) seen.set(path, { ...(seen.get(path) as Seen), isDone: true })
        const waits = [...seen.values()].filter(({ isDone }) => !isDone).map(({ since }) => since + settle - performance.now())
        await changes.next(Math.max(50, Math.min(changes.longest, ...waits)))
      }
    }
  } finally {
    changes.close()
  }
}

/** What is known of the files that there are now; those that had rested before they were first seen need not rest again. */
function after(files: readonly FoundFile[], before: ReadonlyMap<string, Seen>, settle: number): Map<string, Seen> {
  const now = performance.now()
  return new Map(
    files.map(({ path, size, mtimeNs }) => {
      const state = `${size} ${mtimeNs}`
      const known = before.get(path)
      const age = Date.now() - Number(BigInt(mtimeNs) / 1_000_000n)
      return [
        path,
        known?.state === state ? known : { state, since: known ? now : now - Math.min(settle, Math.max(0, age)), isDone: false },
      ]
    }),
  )
}

const isReady = (seen: Seen | undefined, settle: number): boolean =>
  seen !== undefined && !seen.isDone && performance.now() - seen.since >= settle

/** False while the server is away. */
async function uploadNow(cli: Cli, client: Client, files: readonly FoundFile[], uploading: Uploading): Promise<boolean> {
  try {
    await upload(cli, client, files, uploading)
    return true
  } catch (error) {
    if (exitOf(error) !== 'UNAVAILABLE') throw error
    cli.warn(`${(error as Error).message}; trying again in ${pauses.away / 1000} s`)
    return false
  }
}

/** Waits for changes: told by the system, or simply for a while. */
function openChanges(cli: Cli, { folder, poll, signal }: Watching) {
  let hasChanged = false
  let wake = (): void => {}
  let longest = poll ?? pauses.told
  const change = (): void => {
    hasChanged = true
    wake()
  }
  const watcher = poll === null ? open(folder, change) : null
  watcher?.on('error', (error) => {
    cli.warn(`the system tells of no changes any more (${error.message}); looking every ${pauses.unasked / 1000} s`)
    longest = pauses.unasked
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
