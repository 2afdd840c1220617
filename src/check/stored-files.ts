/** Checks stored files: existence, size, checksum and references. */
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { mapInOrder } from '../concurrency.ts'
import { enqueuePurge } from '../documents/purge.ts'
import { isReferenced, listStoredFiles, lockOrCreate, placeholderAddress, usesOf } from '../documents/stored-files.ts'
import { hashStream } from '../hash-stream.ts'
import { FileMissing, sha256Of } from '../ports/file-store.ts'
import type { CheckResult, CheckScope } from './check-result.ts'

const batchSize = 500
/** Number of files that are read at the same time, because each request to a store in the network takes milliseconds. */
const concurrency = 8
/** Minimum age of an orphan: an upload stores its file before it commits the row. */
const minOrphanAgeMs = 3_600_000

interface Stored {
  sha256: string
  address: string
  size: number
}

/** Yields stored files that are missing, unreadable or of the wrong size. Only files that are lost have a repair. */
export async function* files(app: App, scope: CheckScope): AsyncGenerator<CheckResult> {
  const findings = mapInOrder(listFiles(app, scope), concurrency, async (stored) => ({ stored, ...(await findProblem(app, stored)) }))
  for await (const { stored, problem, isLost } of findings) if (problem) yield* reportPerVersion(app, stored, problem, { isLost })
}

/** Returns the problem of a file. `isLost`: its bytes are gone, and not merely on a volume or server that is unavailable. */
async function findProblem(app: App, stored: Stored): Promise<{ problem: Problem | null; isLost: boolean }> {
  try {
    return { problem: await findLoss(app, stored), isLost: true }
  } catch (error) {
    return { problem: toReadProblem(error), isLost: false }
  }
}

async function findLoss(app: App, { address, size }: Stored): Promise<Problem | null> {
  const actual = await app.files.size(address)
  if (actual === null) return { severity: 'error', message: 'the stored file is missing: restore it from a backup' }
  if (actual !== size) return { severity: 'error', message: 'the stored file has the wrong size', expected: size, actual }
  const stream = await app.files.read(address, { start: 0, end: 0 })
  stream.resume()
  await once(stream, 'close')
  return null
}

/** Yields stored files of the sample whose bytes have changed or cannot be read to the end. Only changed ones have a repair. */
export async function* checksums(app: App, scope: CheckScope): AsyncGenerator<CheckResult> {
  const isChosen = () => scope.sample >= 1 || Math.random() < scope.sample
  const sums = mapInOrder(listFiles(app, scope), concurrency, async (stored) => ({
    stored,
    ...(isChosen() ? await findDifference(app, stored) : { problem: null, isLost: false }),
  }))
  for await (const { stored, problem, isLost } of sums) if (problem) yield* reportPerVersion(app, stored, problem, { isLost })
}

/** Reads a whole file. Returns a problem if it cannot be read to its end or its bytes have changed. The check `files` reports files that cannot be opened. */
async function findDifference(app: App, { address, sha256, size }: Stored): Promise<{ problem: Problem | null; isLost: boolean }> {
  let stream: Readable
  try {
    // Reads one byte more than expected, to detect longer files. A stream without an end allocates a large buffer for each small file.
    stream = await app.files.read(address, size > 0 ? { start: 0, end: size } : undefined)
  } catch (error) {
    if (error instanceof FileMissing || causeOf(error).syscall !== undefined) return { problem: null, isLost: false }
    throw error
  }
  let actual: string
  try {
    actual = await hashStream(stream)
  } catch (error) {
    return { problem: toReadProblem(error), isLost: false }
  }
  if (actual === sha256) return { problem: null, isLost: true }
  const message = 'the stored file is corrupt: restore it from a backup'
  return { problem: { severity: 'error', message, expected: sha256, actual }, isLost: true }
}

/** Returns the problem of a file that may be intact on a failing disk, or on a volume or server that is away. */
const toReadProblem = (error: unknown): Problem => ({
  severity: 'error',
  message: `the stored file cannot be read: ${causeOf(error).message}`,
})

/** Returns the error of the file system that an error of the store is about. */
const causeOf = (error: unknown): NodeJS.ErrnoException => ((error as Error).cause ?? error) as NodeJS.ErrnoException

type NamedFile = Pick<Stored, 'address' | 'size'> & { ageMs: number }

/** Yields files and rows without a version of a document. */
export async function* orphans(app: App, scope: CheckScope): AsyncGenerator<CheckResult> {
  let files: NamedFile[] = []
  let done = 0
  const unreadable: string[] = []
  for await (const file of app.files.list((location) => unreadable.push(location))) {
    files.push(file)
    if (files.length < batchSize) continue
    yield* findFilesWithoutRow(app, files)
    files = []
    done += batchSize
    scope.onProgress(done)
  }
  yield* findFilesWithoutRow(app, files)
  for (const location of unreadable) yield { severity: 'error', message: `the folder ${location} cannot be read` }
  yield* findRowsWithoutVersion(app)
}

async function* findFilesWithoutRow(app: App, files: readonly NamedFile[]): AsyncGenerator<CheckResult> {
  // On S3, the files of a bulk upload have their names before the last one has arrived.
  const minAgeMs = Math.max(minOrphanAgeMs, 2 * app.config.server.upload_timeout)
  const uses = await usesOf(
    app.db,
    files.map(({ address }) => address),
  )
  for (const { address, ageMs, size } of files) {
    if (uses.get(address) !== 'none' || ageMs < minAgeMs) continue
    // A purge may have removed it since the list was read. It is reported if its store is out of reach.
    if ((await app.files.size(address).catch(() => undefined)) === null) continue
    yield {
      severity: 'warning',
      message: 'the stored file belongs to no version of a document',
      sha256: sha256Of(address),
      address,
      actual: size,
      repair: () => quarantineUnused(app, address),
    }
  }
}

/**
 * Moves a file into quarantine unless it is used. Takes the lock that uploads of the same bytes take, so a concurrent upload has either recorded the
 * address or never will. Moves the file after the commit.
 */
async function quarantineUnused(app: App, address: string): Promise<string> {
  const sha256 = sha256Of(address)
  const isUsed = await app.db.transaction().execute(async (trx) => {
    const placeholder = placeholderAddress(sha256)
    const current = await lockOrCreate(trx, { sha256, size: 0, address: placeholder })
    if (current === placeholder) await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
    return (await usesOf(trx, [address])).get(address) !== 'none'
  })
  if (isUsed) return 'is used by a version again'
  return app.files.quarantine(address).then(
    (location) => `moved to ${location}`,
    (error) => {
      if (!(error instanceof FileMissing)) throw error
      return 'was removed meanwhile'
    },
  )
}

async function* findRowsWithoutVersion(app: App): AsyncGenerator<CheckResult> {
  let last = ''
  for (;;) {
    const { rows } = await sql<{ sha256: string; address: string }>`
      select sha256, address from stored_files file where sha256 > ${last}
        and not ${isReferenced}
        and not exists (select from jobs where kind = 'purge' and payload ->> 'sha256' = file.sha256)
      order by sha256 limit ${batchSize}`.execute(app.db)
    for (const { sha256, address } of rows) {
      yield {
        severity: 'warning',
        message: 'the stored file belongs to no version or rendition of a document, and no job removes it',
        sha256,
        address,
        async repair() {
          await app.db.transaction().execute((trx) => enqueuePurge(trx, [sha256]))
          return 'queued to be removed'
        },
      }
    }
    if (rows.length < batchSize) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

async function* listFiles(app: App, { signal, onProgress }: CheckScope): AsyncGenerator<Stored> {
  let done = 0
  for await (const file of listStoredFiles(app.db)) {
    signal.throwIfAborted()
    yield file
    onProgress(++done)
  }
}

type Problem = Omit<CheckResult, 'sha256' | 'address' | 'document_id' | 'version'>

/**
 * Yields the problem once for each version with these bytes. An old version is named in the message. `isLost`: the bytes will not return without a repair.
 * Yields nothing if an upload of the same bytes has replaced the file meanwhile.
 */
async function* reportPerVersion(
  app: App,
  { sha256, address }: Stored,
  problem: Problem,
  { isLost }: { isLost: boolean },
): AsyncGenerator<CheckResult> {
  if ((await usesOf(app.db, [address])).get(address) !== 'version') return
  const versions = await app.db
    .selectFrom('document_versions as version')
    .innerJoin('documents as document', 'document.id', 'version.document_id')
    .select(['document_id', 'number', 'current_version'])
    .where('version.sha256', '=', sha256)
    .orderBy('document_id')
    .orderBy('number')
    .execute()
  for (const { document_id, number, current_version } of versions) {
    const message = number === current_version ? problem.message : `version ${number}: ${problem.message}`
    yield { ...problem, message, sha256, address, document_id, version: number }
  }
  const renditions = await app.db.selectFrom('renditions').select(['document_id', 'number']).where('sha256', '=', sha256).execute()
  const repair = () => forgetRenditions(app, sha256)
  for (const { document_id, number } of renditions) {
    const message = isLost
      ? `the rendition of version ${number} is damaged: dms check --repair, then dms renditions make ${document_id}`
      : `rendition of version ${number}: ${problem.message}`
    yield { ...problem, message, sha256, address, document_id, version: number, ...(isLost ? { repair } : {}) }
  }
}

/** Deletes the rows of damaged renditions, which can be made again. */
async function forgetRenditions(app: App, sha256: string): Promise<string> {
  await app.db.transaction().execute(async (trx) => {
    await trx.deleteFrom('renditions').where('sha256', '=', sha256).execute()
    await enqueuePurge(trx, [sha256])
  })
  return 'removed'
}
