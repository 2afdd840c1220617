/** One file, from the source into the staging of the store. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import type { Pulling, Want } from './sync-context.ts'

/** What tells one version of a file from another; all null: nothing does, so that the next run looks again. */
export type Version = Pick<SourceFile, 'etag' | 'size' | 'modifiedAt'>

export type Fetched = { want: Want } & (
  | { outcome: 'staged'; staged: StagedFile; version: Version }
  /** `isGeneral`: it may well be the whole source that fails */
  | { outcome: 'skipped' | 'failed'; code: string; message: string; isGeneral: boolean }
)

/** Milliseconds before the second and the third try. */
const pauses = [500, 2000]
/** A source that is busy says when it wants to be asked again; one that has merely locked a file does not. */
const isGeneral = ({ code, retry }: Problem): boolean =>
  code === 'SOURCE_UNREACHABLE' ||
  code === 'SOURCE_UNAUTHORIZED' ||
  code === 'SOURCE_TOO_SLOW' ||
  (code === 'SOURCE_BUSY' && retry === true)
const unknown: Version = { etag: null, size: null, modifiedAt: null }

/** Fetches it. Whatever is wrong with the file is told in the answer; throws where the store cannot take any, and on abort. */
export async function fetchOne(pulling: Pulling, want: Want): Promise<Fetched> {
  const maxSize = pulling.app.config.sources.max_file_size
  const { size } = want.file
  if (size !== null && size > maxSize) return without(want, 'skipped', new SourceFailure('FILE_TOO_LARGE'))
  for (const pause of [...pauses, null]) {
    try {
      return await attempt(pulling, want, maxSize)
    } catch (error) {
      pulling.signal.throwIfAborted()
      if (error instanceof AppError && error.code === 'PAYLOAD_TOO_LARGE')
        return without(want, 'skipped', new SourceFailure('FILE_TOO_LARGE'))
      if (!(error instanceof SourceFailure)) throw error
      if (error.code === 'FILE_TOO_LARGE') return without(want, 'skipped', error)
      if (!error.isRetryable || pause === null) return without(want, 'failed', error)
      await sleep(pause, undefined, { signal: pulling.signal })
    }
  }
  throw new Error('unreachable')
}

interface Problem {
  code: string
  message: string
  retry?: boolean
}

const without = (want: Want, outcome: 'skipped' | 'failed', problem: Problem): Fetched => ({
  want,
  outcome,
  code: problem.code,
  message: problem.message,
  isGeneral: isGeneral(problem),
})

async function attempt({ app, connection, signal }: Pulling, want: Want, maxSize: number): Promise<Fetched> {
  const { file } = want
  const body = await connection.read(file, signal)
  const staged = await app.files.stage(ofSource(body.bytes), maxSize)
  try {
    const version = versionOf(file, body, staged.size)
    if (staged.size > 0) return { want, outcome: 'staged', staged, version }
  } catch (error) {
    await staged.discard()
    throw error
  }
  await staged.discard()
  return without(want, 'skipped', { code: 'FILE_EMPTY', message: 'The file is empty.' })
}

/** Whose fault it is must be known: a full disk is not a broken file. */
async function* ofSource(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* bytes
  } catch (error) {
    if (error instanceof SourceFailure) throw error
    throw new SourceFailure('SOURCE_UNREACHABLE', `The transfer broke off: ${(error as Error).message}`, true)
  }
}

/** The version that came: the listed one, or an unknown one where the file changed since. Throws SourceFailure where less came, or more, than there is. */
function versionOf(listed: SourceFile, body: SourceBody, size: number): Version {
  const hasChanged =
    (listed.etag !== null && body.etag !== null && bare(listed.etag) !== bare(body.etag)) ||
    (listed.modifiedAt !== null && body.modifiedAt !== null && listed.modifiedAt.getTime() !== body.modifiedAt.getTime())
  if (hasChanged) return unknown
  if (listed.size !== null && listed.size !== size)
    throw new SourceFailure('CONTENT_MISMATCH', `${size} bytes came of ${listed.size} that the listing promised.`, true)
  // A download that ended with its connection, and that no size can be held against, comes without the tag.
  if (listed.size === null && listed.etag !== null && body.etag === null) return unknown
  // Without a tag or a size nothing says that all of it came: the next run looks again.
  return { etag: listed.etag, size: listed.size, modifiedAt: listed.modifiedAt }
}

/** Servers mark tags as weak, or by how they sent the file, in one answer and not in another. */
const bare = (etag: string): string =>
  etag
    .replace(/^W\//, '')
    .replaceAll('"', '')
    .replace(/[-;](gzip|br|deflate)$/, '')
