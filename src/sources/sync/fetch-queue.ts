/** Queue of files to fetch: downloads run concurrently into the staging area of the store, and results are ingested in batches. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
import { openDownloadCollector } from '../../files/free-buffers.ts'
import { type SourceBody, SourceFailure, type SourceFailureCode, type SourceFile } from '../../ports/source-type.ts'
import { ingest } from './ingest.ts'
import { type FetchRequest, type FetchResult, type SyncContext, unknownVersion, type Version } from './sync-context.ts'

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
/** Consecutive source-wide failures that end the sync. */
const maxSourceFailures = 5

/** Files between two heap collections: V8 alone accumulates 100 MB of finished downloads. */
const filesPerCollection = 1000

/** Failures that an immediate retry does not fix: the source waits for its next scheduled sync. */
const finalCodes: readonly string[] = ['SOURCE_UNAUTHORIZED', 'SOURCE_TOO_SLOW']

/** Opens a queue. `onFetch` is called with the path of each file whose download starts. */
export function openFetchQueue(context: SyncContext, onFetch: (path: string) => void): FetchQueue {
  let waiting: FetchRequest[] = []
  let next = 0
  const paths = new Set<string>()
  const fetched: FetchResult[] = []
  /** source-wide failures since the last successful download */
  let sourceFailures: FetchResult[] = []
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
    const file = await fetchFile(context, request)
    if (file.outcome === 'failed' && file.isSourceWide) {
      sourceFailures.push(file)
      if (sourceFailures.length >= maxSourceFailures)
        throw new SourceFailure(file.code as SourceFailureCode, file.message, !finalCodes.includes(file.code))
      return
    }
    fetched.push(...sourceFailures, file)
    sourceFailures = []
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
        await ingest(context, batch)
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

/** Delays before the second and the third attempt. */
const retryDelaysMs = [500, 2000]

/** Fetches a file, with retries. Returns failures of the file in the result. Throws when aborted or when the store fails. */
async function fetchFile(context: SyncContext, request: FetchRequest): Promise<FetchResult> {
  const maxSize = context.app.config.sources.max_file_size
  const { size } = request.file
  if (size !== null && size > maxSize) return failedResult(request, 'skipped', new SourceFailure('FILE_TOO_LARGE'))
  for (const pause of [...retryDelaysMs, null]) {
    try {
      return await fetchOnce(context, request, maxSize)
    } catch (error) {
      context.signal.throwIfAborted()
      if (error instanceof AppError && error.code === 'PAYLOAD_TOO_LARGE')
        return failedResult(request, 'skipped', new SourceFailure('FILE_TOO_LARGE'))
      if (!(error instanceof SourceFailure)) throw error
      if (error.code === 'FILE_TOO_LARGE') return failedResult(request, 'skipped', error)
      if (!error.isRetryable || pause === null) return failedResult(request, 'failed', error)
      await sleep(pause, undefined, { signal: context.signal })
    }
  }
  throw new Error('unreachable')
}

const failedResult = (request: FetchRequest, outcome: 'skipped' | 'failed', problem: { code: string; message: string }): FetchResult => ({
  request,
  outcome,
  code: problem.code,
  message: problem.message,
  isSourceWide: problem instanceof SourceFailure && problem.isSourceWide,
})

async function fetchOnce({ app, connection, signal }: SyncContext, request: FetchRequest, maxSize: number): Promise<FetchResult> {
  const { file } = request
  const body = await connection.read(file, signal)
  const staged = await app.files.stage(wrapErrors(body.bytes), maxSize)
  try {
    const version = resolveVersion(file, body, staged.size)
    if (staged.size > 0) return { request, outcome: 'staged', staged, version }
  } catch (error) {
    await staged.discard()
    throw error
  }
  await staged.discard()
  return failedResult(request, 'skipped', { code: 'FILE_EMPTY', message: 'The file is empty.' })
}

/** Turns errors of the transfer into SourceFailure, so that they are not mistaken for errors of the store. */
async function* wrapErrors(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes
  } catch (error) {
    if (error instanceof SourceFailure) throw error
    throw new SourceFailure('SOURCE_UNREACHABLE', `The transfer was interrupted: ${(error as Error).message}`, true)
  }
}

/** Returns the listed version, or an unknown one where the file has changed since. Throws SourceFailure where the size differs. */
function resolveVersion(listed: SourceFile, body: SourceBody, size: number): Version {
  const hasChanged =
    (listed.etag !== null && body.etag !== null && comparableEtag(listed.etag) !== comparableEtag(body.etag)) ||
    (listed.modifiedAt !== null && body.modifiedAt !== null && listed.modifiedAt.getTime() !== body.modifiedAt.getTime())
  if (hasChanged) return unknownVersion
  if (listed.size !== null && listed.size !== size)
    throw new SourceFailure('CONTENT_MISMATCH', `Received ${size} bytes instead of the listed ${listed.size}.`, true)
  // The end of the connection was the end of the body: without a size nothing proves that it is complete.
  if (listed.size === null && listed.etag !== null && body.etag === null) return unknownVersion
  // Without etag and size the next run fetches the file again.
  return { etag: listed.etag, size: listed.size, modifiedAt: listed.modifiedAt }
}

/** Removes the weak mark and content-coding suffixes, which servers do not send consistently. */
const comparableEtag = (etag: string): string =>
  etag
    .replace(/^W\//, '')
    .replaceAll('"', '')
    .replace(/[-;](gzip|br|deflate)$/, '')
