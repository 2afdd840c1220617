/** Fetches one file of a source. */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import { needsPause } from '../http/responses.ts'
import { type FetchRequest, type FetchResult, type SyncContext, unknownVersion, type Version } from './sync-context.ts'

/** Delays before the second and the third attempt. */
const retryDelaysMs = [500, 2000]

/** Returns whether a sync skips files of this size. */
export const isSkippedSize = ({ config }: App, size: number | null): boolean => size === 0 || (size ?? 0) > config.sources.max_file_size

/** Reads a file once. Throws SourceFailure, or PAYLOAD_TOO_LARGE beyond `maxSize` bytes. */
export type ReadFile = (context: SyncContext, request: FetchRequest, maxSize: number) => Promise<FetchResult>

/** Fetches a file, with retries. Returns failures of the file in the result. Throws when aborted or when the store fails. */
export async function fetchFile(context: SyncContext, request: FetchRequest, read: ReadFile): Promise<FetchResult> {
  const maxSize = context.app.config.sources.max_file_size
  const { size } = request.file
  if (size !== null && size > maxSize) return failedResult(request, 'skipped', new SourceFailure('FILE_TOO_LARGE'))
  for (const pause of [...retryDelaysMs, null]) {
    try {
      return await read(context, request, maxSize)
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
  needsPause: needsPause(problem),
})

/** Reads a file into the staging area of the store. */
export const stageSourceFile: ReadFile = async ({ app, connection, signal }, request, maxSize) => {
  const { file } = request
  const body = await connection.read(file, signal)
  const staged = await app.files.stage(wrapErrors(body.bytes), maxSize).catch(async (error) => {
    // A store that is full or away refuses before it reads.
    await body.discard()
    throw error
  })
  try {
    const version = resolveVersion(file, body, staged.size)
    if (staged.size > 0) return { request, outcome: 'staged', staged, version }
  } catch (error) {
    await staged.discard()
    throw error
  }
  await staged.discard()
  return emptyResult(request)
}

/** Computes the hash of a file, and stores nothing. */
export const hashSourceFile: ReadFile = async ({ connection, signal }, request, maxSize) => {
  const body = await connection.read(request.file, signal)
  const hash = createHash('sha256')
  let size = 0
  for await (const chunk of wrapErrors(body.bytes)) {
    size += chunk.length
    if (size > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
    hash.update(chunk)
  }
  const version = resolveVersion(request.file, body, size)
  return size === 0 ? emptyResult(request) : { request, outcome: 'hashed', sha256: hash.digest('hex'), size, version }
}

const emptyResult = (request: FetchRequest) => failedResult(request, 'skipped', { code: 'FILE_EMPTY', message: 'The file is empty.' })

/** Converts errors of the transfer to SourceFailure, to distinguish them from errors of the store. */
async function* wrapErrors(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes
  } catch (error) {
    if (error instanceof SourceFailure) throw error
    throw new SourceFailure('SOURCE_UNREACHABLE', `The transfer was interrupted: ${(error as Error).message}`, { isRetryable: true })
  }
}

/** Returns the listed version, or an unknown version if the file has changed since. Throws SourceFailure if the size differs. */
function resolveVersion(listed: SourceFile, body: SourceBody, size: number): Version {
  const hasChanged =
    listed.etag !== null && body.etag !== null
      ? comparableEtag(listed.etag) !== comparableEtag(body.etag)
      : listed.modifiedAt !== null && body.modifiedAt !== null && listed.modifiedAt.getTime() !== body.modifiedAt.getTime()
  if (hasChanged) return unknownVersion
  if (listed.size !== null && listed.size !== size)
    throw new SourceFailure('CONTENT_MISMATCH', `Received ${size} bytes instead of the listed ${listed.size}.`, { isRetryable: true })
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
