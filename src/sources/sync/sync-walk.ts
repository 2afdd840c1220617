/** Runs a sync: walks the source, compares it with the ledger, fetches files and finishes the run. */
import { shareRuns } from '../../concurrency.ts'
import * as leases from '../../jobs/leases.ts'
import { type SourceEntry, SourceFailure } from '../../ports/source-type.ts'
import { assertOwnerRights, findWithOwner } from '../open-source.ts'
import { approveAll, approveIfSafe } from './approve-changes.ts'
import { compareListing, flushMarks } from './compare-listing.ts'
import { type FetchQueue, openFetchQueue } from './fetch-queue.ts'
import { completeRun, finishRun } from './finish-run.ts'
import * as folderTags from './folder-tags.ts'
import { holdFiles } from './held-files.ts'
import * as runs from './run-records.ts'
import { createWalkState, type SyncContext, type WalkState } from './sync-context.ts'

/** Maximum number of entries that are compared with the ledger in one batch, and the maximum time that an entry waits for its batch. */
const batchSize = 1000
const maxBatchWaitMs = 1000
/** Interval of progress events and checks. */
const progressIntervalMs = 250
/** Rounds without progress after which the run is checked for cancellation. */
const maxQuietRounds = 4
/** Rounds between checks of the owner's rights. */
const rightsCheckRounds = 4
/** Maximum number of turns that a sync has at once to list what its earlier turns have listed already, or to fetch one large file. */
const maxTurnsAtOnce = 6
/** Rounds after which even a small batch is ingested. A crash loses fetched files that are not ingested yet. */
const flushRounds = 2

/** Runs a sync to its end. Throws SourceFailure if the source cannot be listed, RunLost, or the reason of the signal. */
export async function syncSource(contextWithoutStop: SyncContext): Promise<void> {
  const abort = new AbortController()
  const context = { ...contextWithoutStop, signal: AbortSignal.any([contextWithoutStop.signal, abort.signal]) }
  const { app, ownerId, run, signal } = context
  const isLimited = !context.options.acceptChanges && app.config.sources.max_change_share < 1
  const state = createWalkState(isLimited ? holdFiles() : null)
  let current: string | null = null
  const onFetch = (path: string) => {
    current = path
  }
  const queue = openFetchQueue(context, { onFetch })

  let lastProgress = ''
  let quiet = 0
  let publishing: Promise<void> | null = null
  let round = 0
  const started = performance.now()
  const processedBefore = runs.countProcessed(run)
  let firstProcessedMs: number | null = null
  const check = shareRuns(async () => {
    try {
      await checkOwnerRights(context)
      if (!state.isComparing) await yieldToWaitingSyncs(context, performance.now() - started, firstProcessedMs)
    } catch (error) {
      if (error instanceof SourceFailure || error instanceof leases.Yielded) abort.abort(error)
    }
  })
  let checking: Promise<void> | null = null
  const onTick = () => {
    if (++round % flushRounds === 0) queue.flush()
    if (runs.countProcessed(run) > processedBefore) firstProcessedMs ??= performance.now() - started
    if (round % rightsCheckRounds === 0) checking = check()
    if (publishing) return
    const progress = `${runs.countProcessed(run)} ${state.fileCount} ${current}`
    if (progress === lastProgress && ++quiet < maxQuietRounds) return
    quiet = 0
    lastProgress = progress
    publishing = runs
      .publishProgress(app, run, ownerId, state.fileCount, current)
      .catch((error) => {
        // Database errors are reported by the next write of the sync itself.
        if (error instanceof runs.RunLost) abort.abort(error)
      })
      .finally(() => {
        publishing = null
      })
  }
  const timer = setInterval(onTick, progressIntervalMs)
  const { max_duration } = app.config.sources
  const deadline = setTimeout(() => abort.abort(durationExceeded(max_duration)), max_duration)
  try {
    await walk(context, state, queue)
    await approveAll(context, state, queue, onFetch)
    await queue.end()
    current = null
    await finishRun(context, state)
  } catch (error) {
    if (!abort.signal.aborted) await flushMarks(context, state).catch(() => {})
    throw signal.aborted ? signal.reason : error
  } finally {
    clearInterval(timer)
    clearTimeout(deadline)
    await queue.stop()
    await publishing
    await checking
  }
  await completeRun(app, run, state.fileCount, state.marks.counts)
}

/** Throws SourceFailure if the owner has lost rights since the connection was opened. */
async function checkOwnerRights({ app, sourceId, ownerRole }: SyncContext): Promise<void> {
  const source = await findWithOwner(app.db, sourceId)
  if (!source) return
  assertOwnerRights(source)
  if (source.owner_role !== ownerRole) throw new SourceFailure('SOURCE_OWNER_CHANGED', undefined, { isRetryable: true })
}

/**
 * Throws Yielded after this sync's turn if others wait for a slot. The run is resumed later and lists its source from the beginning: `firstProcessedMs`, the
 * time until the first new file, null for none so far. The turn takes at least twice as long, so that each turn gets further than the one before.
 */
async function yieldToWaitingSyncs({ app, job }: SyncContext, elapsedMs: number, firstProcessedMs: number | null): Promise<void> {
  const { turn, max_syncs_per_user } = app.config.sources
  const longestMs = Math.min(2 * (firstProcessedMs ?? Number.POSITIVE_INFINITY), maxTurnsAtOnce * turn)
  if (job === null || elapsedMs < Math.max(turn, longestMs)) return
  if (await leases.shouldYield(app.db, job, max_syncs_per_user)) throw new leases.Yielded()
}

const durationExceeded = (maxMs: number) =>
  new SourceFailure(
    'SOURCE_TOO_SLOW',
    `The sync took longer than sources.max_duration (${maxMs / 1000} s). Files fetched so far stay; the next sync continues.`,
  )

async function walk(context: SyncContext, state: WalkState, queue: FetchQueue): Promise<void> {
  const { app, sourceId, connection, options, signal } = context
  let batch: SourceEntry[] = []
  let batchStart = performance.now()
  let filesLeft = options.maxFiles ?? Number.POSITIVE_INFINITY
  let comparing = Promise.resolve(0)
  const compare = async (entries: readonly SourceEntry[]): Promise<number> => {
    const requests = await compareListing(context, state, queue, entries, filesLeft)
    await approveIfSafe(context, state, queue)
    return requests
  }
  /** Compares a batch while the next entries are listed. Returns false when the limit of files is reached. */
  const compareBatch = async (): Promise<boolean> => {
    filesLeft -= await comparing
    comparing = filesLeft > 0 ? compare(batch) : Promise.resolve(0)
    comparing.catch(() => {})
    batch = []
    batchStart = performance.now()
    return filesLeft > 0
  }
  try {
    for await (const entry of connection.walk({ loadTag: folderTags.createTagLookup(app.db, sourceId, options.full), signal })) {
      signal.throwIfAborted()
      batch.push(entry)
      if (batch.length < batchSize && performance.now() - batchStart < maxBatchWaitMs) continue
      if (!(await compareBatch())) break
    }
    await compareBatch()
    filesLeft -= await comparing
  } finally {
    await comparing.catch(() => {})
  }
  if (filesLeft <= 0) state.isComplete = false
}
