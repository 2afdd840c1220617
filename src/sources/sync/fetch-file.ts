/** Fetches one file from the source into the staging area of the store. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import type { FetchRequest, SyncContext } from './sync-context.ts'

/** Identifies the version of a file. All null: unknown, so the next run fetches the file again. */
export type Version = Pick<SourceFile, 'etag' | 'size' | 'modifiedAt'>

export type FetchResult = { request: FetchRequest } & (
  | { outcome: 'staged'; staged: StagedFile; version: Version }
  /** `isSourceWide`: the failure may concern the whole source */
  | { outcome: 'skipped' | 'failed'; code: string; message: string; isSourceWide: boolean }
)

/** Delays before the second and the third attempt. */
const retryDelaysMs = [500, 2000]
const unknownVersion: Version = { etag: null, size: null, modifiedAt: null }

/** Fetches a file, with retries. Returns failures of the file in the result. Throws when aborted or when the store fails. */
export async function fetchFile(context: SyncContext, request: FetchRequest): Promise<FetchResult> {
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
