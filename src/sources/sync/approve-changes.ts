/**
 * Stops a sync that would change or remove more than `sources.max_change_share` of the known files. Ransomware and a wrong mount look like this.
 * Changes are held back until enough files are known to be unchanged. After the walk, a sync above the limit compares bytes: a moved server sends new
 * etags, and a renamed folder new paths, for unchanged files.
 */
import type { App } from '../../app.ts'
import { dms, formatFix } from '../../log/fix.ts'
import { type SourceEntry, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import * as counts from './change-counts.ts'
import { compareListing, flushMarks, pickKnown } from './compare-listing.ts'
import { hashSourceFile, isSkippedSize } from './fetch-file.ts'
import { type FetchQueue, openFetchQueue } from './fetch-queue.ts'
import { ingest } from './ingest.ts'
import * as ledger from './ledger.ts'
import type { FetchRequest, FetchResult, SyncContext, WalkState } from './sync-context.ts'

/** Applies the held changes as soon as the turn has seen enough unchanged files: all others may change then. */
export async function approveIfSafe(context: SyncContext, state: WalkState, queue: FetchQueue): Promise<void> {
  const { app, sourceId, run } = context
  const { held } = state
  if (held === null || held.known === null || held.count === 0 || state.seenCount < held.nextCheck) return
  await flushMarks(context, state)
  const { unchanged } = await counts.countKnown(app.db, sourceId, run)
  const missing = held.known - limitOf(context, held.known) - unchanged
  if (missing > 0) held.nextCheck = state.seenCount + missing
  else await applyHeld(context, state, queue)
}

/** Applies the held changes after the walk. Throws SourceFailure SYNC_LOOKS_DESTRUCTIVE. */
export async function approveAll(
  context: SyncContext,
  state: WalkState,
  queue: FetchQueue,
  onFetch: (path: string) => void,
): Promise<void> {
  if (state.held === null || state.held.count === 0) return
  await assertNotDestructive(context, state, onFetch)
  await applyHeld(context, state, queue)
}

async function applyHeld(context: SyncContext, state: WalkState, queue: FetchQueue): Promise<void> {
  const batches = state.held?.batches() ?? []
  state.held = null
  for (const files of batches) {
    context.signal.throwIfAborted()
    const entries = files.map((file): SourceEntry => ({ kind: 'file', file }))
    await compareListing(context, state, queue, entries, Number.POSITIVE_INFINITY)
  }
}

const limitOf = ({ app }: SyncContext, known: number): number => app.config.sources.max_change_share * known

/**
 * Throws SourceFailure SYNC_LOOKS_DESTRUCTIVE if the run would change or remove too many known files. Otherwise changes nothing, except that it
 * records files with known bytes.
 */
export async function assertNotDestructive(context: SyncContext, state: WalkState, onFetch: (path: string) => void): Promise<void> {
  const { app, sourceId, run } = context
  if (state.held === null) return
  const known = state.held.known ?? (await counts.countKnown(app.db, sourceId, run)).known
  if (known < counts.minKnownFiles) return
  await flushMarks(context, state)
  const limit = limitOf(context, known)
  const isPossible = (await countTouched(context, state)) > limit
  if (!isPossible) return
  const failure = judgeChanges(app, context.name, known, await compareBytes(context, state, limit, onFetch))
  if (failure) throw failure
}

/** Returns the number of known files that the run would change or remove, according to its records. An incomplete walk removes none. */
async function countTouched(context: SyncContext, state: WalkState): Promise<number> {
  const { app, sourceId, run } = context
  if (state.isComplete) return counts.countUnseenKnown(app.db, sourceId, run, state.uncertainPaths)
  let touched = 0
  for await (const { row } of listDoubtful(context, state)) if (row) touched++
  return touched
}

/**
 * Reads held files until it is certain whether more than `limit` known files would change or vanish. Returns their number, or a lower number on the
 * same side of the limit. Records files with known bytes in the ledger, from which an interrupted comparison continues.
 */
async function compareBytes(context: SyncContext, state: WalkState, limit: number, onFetch: (path: string) => void): Promise<number> {
  const { app, sourceId, run } = context
  const unseenSizes = await counts.listUnseenSizes(app.db, sourceId, run, state.uncertainPaths)
  const isPossibleMove = ({ size }: SourceFile) => state.isComplete && (unseenSizes === null || size === null || unseenSizes.has(size))
  const isUseful = ({ file, row }: Doubtful): boolean => (row ? !hasOtherSize(context, file, row) : isPossibleMove(file))
  let touched = await countTouched(context, state)
  let uncompared = 0
  for await (const doubtful of listDoubtful(context, state)) if (isUseful(doubtful)) uncompared++
  const failedPaths = new Set<string>()
  const isDestructive = () => touched - uncompared > limit
  const isDecided = () => touched <= limit || isDestructive()
  const onBatch = async (results: readonly FetchResult[]) => {
    if (isDecided()) return
    const recorded = await recordKnownBytes(context, results)
    const failed = results.filter(({ request, outcome }) => outcome !== 'hashed' && request.previous !== null)
    for (const { request } of failed) failedPaths.add(request.file.path)
    uncompared -= results.length
    touched -= recorded + failed.length
    // Copies of one file may have counted as moves of it.
    if (touched <= limit) touched = (await countTouched(context, state)) - failedPaths.size
  }
  state.isComparing = true
  const queue = openFetchQueue(context, { onFetch, read: hashSourceFile, onBatch })
  try {
    for await (const doubtful of listDoubtful(context, state)) {
      if (isDecided()) break
      if (isUseful(doubtful)) await queue.add([{ file: doubtful.file, previous: doubtful.row && pickKnown(doubtful.row) }])
    }
    if (!isDecided()) await queue.end()
    if (isDestructive()) return touched - uncompared
    return (await countTouched(context, state)) - failedPaths.size
  } finally {
    await queue.stop()
    state.isComparing = false
  }
}

interface Doubtful {
  file: SourceFile
  /** null: new */
  row: ledger.ComparedFile | null
}

/** Yields held files that the turn has not recorded: known files, and new files, which may be moved ones. */
async function* listDoubtful({ app, sourceId, run, signal }: SyncContext, { held, uncertainPaths }: WalkState): AsyncGenerator<Doubtful> {
  const isUncertain = (path: string) => uncertainPaths.some((above) => above === '' || path === above || path.startsWith(`${above}/`))
  for (const files of held?.batches() ?? []) {
    signal.throwIfAborted()
    const rows = await ledger.compareFiles(app.db, sourceId, files)
    for (const file of files) {
      const row = rows.get(file.path) ?? null
      if (row?.seen_by === run.holder || isUncertain(file.path)) continue
      const isKnown = row !== null && counts.isKnown(row)
      if (isKnown || row?.outcome !== 'stored') yield { file, row: isKnown ? row : null }
    }
  }
}

/** Returns true if the listed size proves that the bytes are new: neither the last fetched bytes nor the bytes of the document. */
function hasOtherSize({ app }: SyncContext, { size }: SourceFile, row: ledger.ComparedFile): boolean {
  if (size === null || isSkippedSize(app, size)) return false
  const lastSize = row.size ?? (row.sha256 === row.current_sha256 ? row.current_size : null)
  return lastSize !== null && size !== lastSize && size !== row.current_size
}

/** Records files with known bytes: the bytes of the ledger, of the document or of another path. Returns their number. */
async function recordKnownBytes(context: SyncContext, results: readonly FetchResult[]): Promise<number> {
  const hashed = results.filter((result) => result.outcome === 'hashed')
  const newHashes = hashed.flatMap(({ request, sha256 }) => (request.previous === null ? [sha256] : []))
  const unseen = await ledger.findUnseenHashes(context.app.db, context.sourceId, context.run, newHashes)
  const isSame = ({ previous }: FetchRequest, sha256: string) =>
    previous === null ? unseen.has(sha256) : sha256 === previous.sha256 || sha256 === previous.current_sha256
  const known = hashed.filter(({ request, sha256 }) => isSame(request, sha256))
  if (known.length > 0) await ingest(context, known)
  return known.length
}

/** Returns the failure of a sync that would change or remove more files than it may, or null. */
export function judgeChanges(app: App, name: string, known: number, touched: number): SourceFailure | null {
  const share = app.config.sources.max_change_share
  if (known < counts.minKnownFiles || touched <= share * known) return null
  const fix = formatFix([
    'If these changes are intended: ',
    dms`sources sync ${name} --accept-changes`,
    '. If earlier syncs did damage: ',
    dms`sources rollback ${name} --before TIME`,
  ])
  return new SourceFailure(
    'SYNC_LOOKS_DESTRUCTIVE',
    `At least ${touched} of the ${known} known files have changed or vanished, more than sources.max_change_share (${share}) allows. Nothing was applied. ${fix}.`,
  )
}
