/** Stored files: whether each is there, is what its address says, and belongs to somebody. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { listStoredFiles, lockOrCreate, placeholderAddress, usesOf } from '../documents/stored-files.ts'
import { openFileCollector } from '../files/free-buffers.ts'
import * as jobs from '../jobs/queue.ts'
import { FileMissing, sha256Of } from '../ports/file-store.ts'
import type { Found, Scope } from './check-result.ts'

const batch = 500
/** Milliseconds: bytes get their name before their row is committed. */
const grace = 3_600_000

interface Stored {
  sha256: string
  address: string
  size: number
}

/** Missing, of another length, or not to be read. */
export async function* files(app: App, scope: Scope): AsyncGenerator<Found> {
  const wasRead = openFileCollector()
  for await (const stored of all(app, scope)) {
    const trouble = await troubleOf(app, stored)
    wasRead()
    if (trouble) yield* perDocument(app, stored, trouble)
  }
}

async function troubleOf(app: App, { address, size }: Stored): Promise<Problem | null> {
  const actual = await app.files.size(address)
  if (actual === null) return { severity: 'error', message: 'the stored file is missing: restore it from a backup' }
  if (actual !== size) return { severity: 'error', message: 'the stored file has another length', expected: size, actual }
  try {
    const stream = await app.files.read(address, { start: 0, end: 0 })
    stream.resume()
    await once(stream, 'close')
    return null
  } catch (error) {
    return { severity: 'error', message: `the stored file cannot be read: ${(error as Error).message}` }
  }
}

/** Of a sample: bytes that are not those that were stored. */
export async function* checksums(app: App, scope: Scope): AsyncGenerator<Found> {
  const wasRead = openFileCollector()
  for await (const stored of all(app, scope)) {
    if (scope.sample < 1 && Math.random() >= scope.sample) continue
    const { sha256 } = stored
    const actual = await hashOf(app, stored)
    wasRead()
    if (actual === null || actual === sha256) continue
    const message = 'the stored file is corrupt: restore it from a backup'
    yield* perDocument(app, stored, { severity: 'error', message, expected: sha256, actual })
  }
}

/** null where there is nothing to be read, which `files` tells of. */
async function hashOf(app: App, { address, size }: Stored): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    // One byte further than it should go: what is too long is not itself. A stream that knows no end takes much memory for every small file.
    for await (const chunk of await app.files.read(address, size > 0 ? { start: 0, end: size } : undefined)) hash.update(chunk)
    return hash.digest('hex')
  } catch (error) {
    if (error instanceof FileMissing || (error as NodeJS.ErrnoException).syscall !== undefined) return null
    throw error
  }
}

interface NamedFile {
  address: string
  size: number
  modifiedAt: Date
}

/** Files and rows that no document has. */
export async function* orphans(app: App, scope: Scope): AsyncGenerator<Found> {
  let files: NamedFile[] = []
  let done = 0
  for await (const file of app.files.list()) {
    files.push(file)
    if (files.length < batch) continue
    yield* withoutRow(app, files)
    files = []
    done += batch
    scope.onProgress(done)
  }
  yield* withoutRow(app, files)
  yield* withoutDocument(app)
}

async function* withoutRow(app: App, files: readonly NamedFile[]): AsyncGenerator<Found> {
  const uses = await usesOf(
    app.db,
    files.map(({ address }) => address),
  )
  for (const { address, modifiedAt, size } of files) {
    if (uses.get(address) !== 'none' || app.now().getTime() - modifiedAt.getTime() < grace) continue
    yield {
      severity: 'warning',
      message: 'a stored file that no document has',
      sha256: sha256Of(address),
      address,
      actual: size,
      repair: () => quarantine(app, address),
    }
  }
}

/**
 * Asked again under the lock that uploads of the same bytes take: an upload that is under way has ended then, and its address is either in a row or
 * of no use for ever. Only after the commit the file is moved.
 */
async function quarantine(app: App, address: string): Promise<string> {
  const sha256 = sha256Of(address)
  const isUsed = await app.db.transaction().execute(async (trx) => {
    const placeholder = placeholderAddress(sha256)
    const found = await lockOrCreate(trx, { sha256, size: 0, address: placeholder })
    if (found === placeholder) await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
    return (await usesOf(trx, [address])).get(address) !== 'none'
  })
  return isUsed ? 'it is used by now' : `moved to ${await app.files.quarantine(address)}`
}

async function* withoutDocument(app: App): AsyncGenerator<Found> {
  let last = ''
  for (;;) {
    const { rows } = await sql<{ sha256: string; address: string }>`
      select sha256, address from stored_files file where sha256 > ${last}
        and not exists (select from documents where documents.sha256 = file.sha256)
        and not exists (select from jobs where kind = 'purge' and payload ->> 'sha256' = file.sha256)
      order by sha256 limit ${batch}`.execute(app.db)
    for (const { sha256, address } of rows) {
      yield {
        severity: 'warning',
        message: 'stored bytes that no document has, and that nothing is about to remove',
        sha256,
        address,
        async repair() {
          await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256 }, { dedupeKey: `purge:${sha256}` }))
          return 'will be removed by a worker'
        },
      }
    }
    if (rows.length < batch) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

async function* all(app: App, { signal, onProgress }: Scope): AsyncGenerator<Stored> {
  let done = 0
  for await (const file of listStoredFiles(app.db)) {
    signal.throwIfAborted()
    yield file
    onProgress(++done)
  }
}

type Problem = Omit<Found, 'sha256' | 'address' | 'document_id'>

/** A finding for each document that has these bytes; none where the last of them went meanwhile. */
async function* perDocument(app: App, { sha256, address }: Stored, problem: Problem): AsyncGenerator<Found> {
  const documents = await app.db.selectFrom('documents').select('id').where('sha256', '=', sha256).orderBy('id').execute()
  for (const { id } of documents) yield { ...problem, sha256, address, document_id: id }
}
