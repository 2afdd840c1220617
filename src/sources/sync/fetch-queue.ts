/** Queue of files to fetch: downloads run concurrently into the staging area of the store, and results are ingested in batches. */
import { openDownloadCollector } from '../../files/free-buffers.ts'
import { SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import { fetchFile, type ReadFile, stageSourceFile } from './fetch-file.ts'
import { ingest } from './ingest.ts'
import type { FetchRequest, FetchResult, SyncContext } from './sync-context.ts'

export interface FetchQueue {
  /** Adds files. Waits while the queue is full. Throws the error that stopped the queue. */
  add(requests: readonly FetchRequest[]): Promise<void>
  /** Returns true if the file is queued or not ingested yet. */
  has(path: string): boolean
  /** Starts to ingest the results so far. Call it regularly. */
  flush(): void
  /** Waits until all files are ingested. Throws the error that stopped the queue. */
  end(): Promise<void>
  /** Starts no more downloads and waits for running work. */
  stop(): Promise<void>
}

/** Length of the queue. It decouples the listing, which servers time out, from the downloads; a longer queue costs memory. */
const maxWaiting = 5000
/** Results ingested by one transaction. */
const batchSize = 100
/** Results that wait for ingestion. */
const maxFetched = 200
/** Consecutive source-wide failures that end the sync, unless the source can be listed: then they concern their files only. */
const maxSourceFailures = 5
/** Consecutive source-wide failures that always end the sync: a source that lists all files and sends none would be asked for each of them. */
const maxConsecutiveFailures = 1000

/** Files between two heap collections: V8 alone accumulates 100 MB of finished downloads. */
const filesPerCollection = 1000

/** Failures that an immediate retry does not fix: the source waits for its next scheduled sync. */
const finalCodes: readonly string[] = ['SOURCE_UNAUTHORIZED', 'SOURCE_TOO_SLOW']

interface QueueOptions {
  /** called with the path of each file whose download starts */
  onFetch(path: string): void
  /** default: stages the file */
  read?: ReadFile
  /** default: ingest() */
  onBatch?(batch: readonly FetchResult[]): Promise<void>
}

/** Returns whether the address of the source can be listed now. */
async function canBeListed({ connection, signal }: SyncContext): Promise<boolean> {
  const entries = connection.walk({ loadTag: async () => null, signal })[Symbol.asyncIterator]()
  try {
    await entries.next()
    return true
  } catch {
    signal.throwIfAborted()
    return false
  } finally {
    await entries.return?.()
  }
}

/** Opens a queue. */
export function openFetchQueue(
  context: SyncContext,
  { onFetch, read = stageSourceFile, onBatch = (batch) => ingest(context, batch) }: QueueOptions,
): FetchQueue {
  let waiting: FetchRequest[] = []
  let next = 0
  const paths = new Set<string>()
  const fetched: FetchResult[] = []
  /** source-wide failures that may still concern their files only */
  let sourceFailures: FetchResult[] = []
  let consecutiveFailures = 0
  let running = 0
  let ingesting: Promise<void> | null = null
  let fatal: { error: unknown } | null = null
  let isStopped = false
  let changed = Promise.withResolvers<void>()
  const onFileRead = openDownloadCollector(filesPerCollection)

  const notifyChange = () => {
    changed.resolve()
    changed = Promise.withResolvers()
  }
  const fail = (error: unknown) => {
    fatal ??= { error }
  }
  const throwIfFailed = () => {
    if (fatal) throw fatal.error
  }

  const fetchNext = async (request: FetchRequest) => {
    onFetch(request.file.path)
    const file = await fetchFile(context, request, read)
    if (file.outcome === 'failed' && file.isSourceWide) {
      sourceFailures.push(file)
      consecutiveFailures++
      if (sourceFailures.length < maxSourceFailures) return
      const failures = sourceFailures
      sourceFailures = []
      if (file.needsPause || consecutiveFailures >= maxConsecutiveFailures || !(await canBeListed(context)))
        throw new SourceFailure(file.code as SourceFailureCode, file.message, { isRetryable: !finalCodes.includes(file.code) })
      fetched.push(...failures)
      return
    }
    fetched.push(...sourceFailures, file)
    sourceFailures = []
    consecutiveFailures = 0
    if (fetched.length >= batchSize) flush()
  }

  const pump = () => {
    while (!fatal && !isStopped && running < context.options.concurrency && next < waiting.length && fetched.length < maxFetched) {
      const request = waiting[next++] as FetchRequest
      if (next > 1000) {
        waiting = waiting.slice(next)
        next = 0
      }
      running++
      void fetchNext(request)
        .catch(fail)
        .finally(() => {
          running--
          pump()
          notifyChange()
        })
    }
  }

  const flush = () => {
    if (ingesting || fetched.length === 0) return
    ingesting = (async () => {
      while (!fatal && fetched.length > 0) {
        const batch = fetched.splice(0, batchSize)
        await onBatch(batch)
        for (const { request } of batch) {
          paths.delete(request.file.path)
          onFileRead()
        }
        pump()
      }
    })()
      .catch(fail)
      .finally(() => {
        ingesting = null
        notifyChange()
      })
  }

  const isIdle = () => running === 0 && next >= waiting.length

  return {
    async add(requests) {
      for (const { file } of requests) paths.add(file.path)
      waiting.push(...requests)
      pump()
      while (!fatal && waiting.length - next > maxWaiting) await changed.promise
      throwIfFailed()
    },
    has: (path) => paths.has(path),
    flush,
    async end() {
      while (!fatal && !isIdle()) {
        flush()
        await changed.promise
      }
      throwIfFailed()
      fetched.push(...sourceFailures)
      sourceFailures = []
      flush()
      while (ingesting) await ingesting
      throwIfFailed()
    },
    async stop() {
      isStopped = true
      while (running > 0 || ingesting) await changed.promise
      const left = [...fetched, ...sourceFailures].flatMap((each) => (each.outcome === 'staged' ? [each.staged] : []))
      await Promise.all(left.map((staged) => staged.discard()))
    },
  }
}
