/** Compares a listing with the ledger in batches and decides the action for each file. */
import type { App } from '../../app.ts'
import { markSourceRestored } from '../../documents/source-documents.ts'
import type { SourceEntry, SourceFile } from '../../ports/source-type.ts'
import { filterMatching } from '../globs.ts'
import { countKnown, minKnownFiles } from './change-counts.ts'
import { isSkippedSize } from './fetch-file.ts'
import type { FetchQueue } from './fetch-queue.ts'
import * as folderTags from './folder-tags.ts'
import type { HeldFiles } from './held-files.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import { createMarks, type FetchRequest, isFlushDue, markUncertain, type SyncContext, type WalkState } from './sync-context.ts'

/** Longest path that fits into an index row of the database, in bytes. */
const maxPathBytes = 2000

/** Changes to write before the walk continues. */
interface PendingChanges {
  /** files of the ledger that were removed and are listed again */
  restored: ledger.KnownFile[]
  /** changed files whose documents are in the trash; the first run after an undelete fetches them */
  outdated: string[]
  counts: runs.Counts
  errors: runs.FileError[]
  /** completely listed folders with their tags */
  walked: Map<string, string>
  /** unchanged folders that were not entered */
  pruned: string[]
}

/** Counts unchanged files and adds up to `left` others to the fetch queue. Returns the number of files to fetch. Throws RunLost. */
export async function compareListing(
  context: SyncContext,
  state: WalkState,
  queue: FetchQueue,
  entries: readonly SourceEntry[],
  left: number,
): Promise<number> {
  const { app, sourceId, run, globs, options } = context
  const listed = new Map(entries.flatMap((entry) => (entry.kind === 'file' ? [[entry.file.path, entry.file]] : [])))
  const matchingPaths = await filterMatching(globs, listed.keys())
  const ledgerRows = await ledger.compareFiles(app.db, sourceId, [...listed.values()], options.full ? undefined : run.id)
  if (state.held !== null && ledgerRows.size > 0) await countBeforeHold(context, state, state.held)
  const requests: FetchRequest[] = []
  const held: SourceFile[] = []
  let heldFetches = 0
  const changes = collectChanges(entries)
  for (const entry of entries) if (entry.kind === 'problem' && !entry.isUnusableName) markUncertain(state, entry.path)
  for (const file of listed.values()) {
    const { path } = file
    if (state.marks.paths.has(path) || queue.has(path)) continue
    const row = ledgerRows.get(path)
    // Listed twice.
    if (row?.seen_by === run.holder) continue
    const isMatching = matchingPaths.has(path)
    if (isContent(app, file, row, { isMatching })) state.hasFiles = true
    if (isMatching && Buffer.byteLength(path) > maxPathBytes) {
      state.fileCount++
      changes.counts.failed++
      changes.errors.push({ path, code: 'SOURCE_PROTOCOL', message: `The path is longer than ${maxPathBytes} bytes.` })
      continue
    }
    const action = isMatching ? decideAction(row, options) : 'unchanged'
    const isCounted = row?.run_id === run.id && !(action === 'fetch' && hasOtherVersion(row))
    if (state.held !== null && !isCounted && (action === 'fetch' || action === 'trashed' || row?.removed_at)) {
      if (action !== 'fetch' || heldFetches++ < left) held.push(file)
      continue
    }
    if (!isMatching) {
      // The file no longer matches the patterns, but it still exists. One that an interrupted run took for a move is not ingested.
      if (row !== null && row?.outcome !== 'moving') markListed(state, changes, path, row)
      continue
    }
    state.fileCount++
    // By an earlier turn of this run.
    if (isCounted) {
      state.seenCount++
      markListed(state, changes, path, row)
    } else if (action === 'fetch') requests.push({ file, previous: row ? pickKnown(row) : null })
    else recordListed(run, state, changes, { path, row }, action)
  }
  // Moves are detected by files not seen in this run, so sightings must be written before new files are ingested.
  if (requests.length > 0 || isFlushDue(state) || hasChanges(changes)) await flushChanges(context, state, changes)
  state.held?.add(held)
  await queue.add(requests.slice(0, left))
  return requests.length + heldFetches
}

/** Records a file that is not fetched: marks it as seen, and counts it by its action. `row`: undefined for an unchanged file. */
function recordListed(
  run: SyncContext['run'],
  state: WalkState,
  changes: PendingChanges,
  { path, row }: { path: string; row: ledger.ComparedFile | null | undefined },
  action: Exclude<Action, 'fetch'>,
): void {
  if (action === 'trashed') {
    changes.outdated.push(path)
    if (row?.removed_at) changes.restored.push(row)
    changes.counts.skipped++
  } else if (row?.removed_at) {
    changes.restored.push(row)
    if (action !== 'wait') changes.counts[row.document_id === null ? action : 'updated']++
  } else {
    state.marks.paths.add(path)
    state.seenCount++
    if (action === 'wait') return
    state.marks.counts[action]++
    run[action]++
  }
}

/** Marks a listed file as seen. `row`: undefined for an unchanged file. */
function markListed(state: WalkState, changes: PendingChanges, path: string, row: ledger.ComparedFile | undefined): void {
  if (row?.removed_at) changes.restored.push(row)
  else state.marks.paths.add(path)
}

/** Counts the known files once. Approves the changes of a source that has few. */
async function countBeforeHold({ app, sourceId, run }: SyncContext, state: WalkState, held: HeldFiles): Promise<void> {
  if (held.known !== null) return
  held.known = (await countKnown(app.db, sourceId, run)).known
  held.nextCheck = held.known * (1 - app.config.sources.max_change_share)
  if (held.known < minKnownFiles) state.held = null
}

/** Writes the collected marks to the ledger. Throws RunLost. */
export const flushMarks = (context: SyncContext, state: WalkState): Promise<void> => flushChanges(context, state, collectChanges([]))

/** `trashed`: the changed file of a document in the trash. `wait`: a file that an interrupted run took for a move. */
type Action = 'fetch' | 'unchanged' | 'skipped' | 'trashed' | 'wait'

/**
 * Returns whether the file shows that the source is not empty. A mount point without its file system may contain files that a sync skips, and hidden
 * files such as `.DS_Store`. `row` as in decideAction().
 */
export const isContent = (
  app: App,
  { path, size }: SourceFile,
  row: ledger.ComparedFile | null | undefined,
  { isMatching }: { isMatching: boolean },
): boolean => !ledger.isSystemPath(path) && (row === null ? isMatching && !isSkippedSize(app, size) : size !== 0)

/** Decides the action for a listed file. undefined: the file is unchanged; null: the file is new. */
export function decideAction(row: ledger.ComparedFile | null | undefined, { full }: { full: boolean }): Action {
  if (row === undefined) return 'unchanged'
  if (row === null) return 'fetch'
  const isDeleted = row.outcome === 'stored' && row.document_id === null
  if (isDeleted) return 'skipped'
  if (row.is_trashed) return row.is_same ? 'unchanged' : 'trashed'
  if (full || !row.is_same) return 'fetch'
  if (row.outcome === 'moving') return 'wait'
  return row.outcome === 'stored' ? 'unchanged' : 'fetch'
}

/** Whether the ledger knows another version of the file than the listed one. */
const hasOtherVersion = ({ outcome, is_same, etag, size, modified_at }: ledger.ComparedFile): boolean =>
  outcome === 'stored' && !is_same && (etag !== null || size !== null || modified_at !== null)

/** Drops the other columns to save memory in the queue. */
export function pickKnown(row: ledger.ComparedFile): NonNullable<FetchRequest['previous']> {
  const { outcome, sha256, document_id, removed_at, current_sha256 } = row
  return { outcome, sha256, document_id, removed_at, current_sha256 }
}

function collectChanges(entries: readonly SourceEntry[]): PendingChanges {
  const changes: PendingChanges = { restored: [], outdated: [], counts: runs.emptyCounts(), errors: [], walked: new Map(), pruned: [] }
  for (const entry of entries) {
    if (entry.kind === 'folder' && entry.isPruned) changes.pruned.push(entry.path)
    else if (entry.kind === 'folder' && entry.etag !== null) changes.walked.set(entry.path, entry.etag)
    else if (entry.kind === 'problem') {
      changes.counts.failed++
      changes.errors.push({ path: entry.path, code: entry.code, message: entry.message })
    }
  }
  return changes
}

const hasChanges = ({ restored, outdated, errors, walked, pruned }: PendingChanges): boolean =>
  restored.length + outdated.length + errors.length + walked.size + pruned.length > 0

async function flushChanges({ app, sourceId, run }: SyncContext, state: WalkState, changes: PendingChanges): Promise<void> {
  const marks = state.marks
  if (marks.paths.size === 0 && !hasChanges(changes)) return
  const { restored, outdated, counts, errors, walked, pruned } = changes
  let filesBelow = 0
  await app.db.transaction().execute(async (trx) => {
    await runs.assertHeld(trx, run)
    const documents = restored.flatMap(({ document_id }) => (document_id === null ? [] : [document_id]))
    await markSourceRestored(app, trx, documents)
    await ledger.markSeen(trx, sourceId, run, [...marks.paths, ...restored.map(({ path }) => path), ...outdated])
    if (outdated.length > 0) await ledger.resetVersions(trx, sourceId, outdated)
    await folderTags.recordTags(trx, sourceId, run, walked)
    for (const path of pruned) {
      const { files, counted } = await ledger.markSeenBelow(trx, sourceId, run, path)
      filesBelow += files
      counts.unchanged += counted
    }
    await runs.addCounts(trx, run, runs.sumCounts(counts, marks.counts), errors)
  })
  state.marks = createMarks()
  runs.tallyCounts(run, counts, errors)
  state.fileCount += filesBelow
  state.seenCount += filesBelow
  if (pruned.length > 0) state.hasFiles = true
}
