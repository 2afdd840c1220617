/** Stored files: whether each is there, is what its address says, and belongs to somebody. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { lockStored } from '../documents/upload.ts'
import { openFileCollector } from '../files/collect.ts'
import * as jobs from '../jobs.ts'
import { FileMissing } from '../ports/files.ts'
import type { Found, Scope } from './found.ts'

const batch = 500
/** Milliseconds: bytes get their name before their row is committed. */
const grace = 3_600_000

interface Stored {
  sha256: string
  size: number
}

/** Missing, of another length, or not to be read. */
export async function* files(app: App, scope: Scope): AsyncGenerator<Found> {
  const wasRead = openFileCollector()
  for await (const stored of all(app, scope)) {
    const trouble = await troubleOf(app, stored)
    wasRead()
    if (trouble) yield* perDocument(app, stored.sha256, trouble)
  }
}

async function troubleOf(app: App, { sha256, size }: Stored): Promise<Omit<Found, 'sha256' | 'document_id'> | null> {
  const actual = await app.files.size(sha256)
  if (actual === null) return { severity: 'error', message: 'the stored file is missing: restore it from a backup' }
  if (actual !== size) return { severity: 'error', message: 'the stored file has another length', expected: size, actual }
  try {
    const stream = await app.files.read(sha256, { start: 0, end: 0 })
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
  for await (const { sha256, size } of all(app, scope)) {
    if (scope.sample < 1 && Math.random() >= scope.sample) continue
    const actual = await hashOf(app, { sha256, size })
    wasRead()
    if (actual === null || actual === sha256) continue
    const message = 'the stored file is corrupt: restore it from a backup'
    yield* perDocument(app, sha256, { severity: 'error', message, expected: sha256, actual })
  }
}

/** null where there is nothing to be read, which `files` tells of. */
async function hashOf(app: App, { sha256, size }: Stored): Promise<string | null> {
  const hash = createHash('sha256')
  try {
    // One byte further than it should go: what is too long is not itself. A stream that knows no end takes much memory for every small file.
    for await (const chunk of await app.files.read(sha256, size > 0 ? { start: 0, end: size } : undefined)) hash.update(chunk)
    return hash.digest('hex')
  } catch (error) {
    if (error instanceof FileMissing || (error as NodeJS.ErrnoException).syscall !== undefined) return null
    throw error
  }
}

/** Files and rows that no document has. */
export async function* orphans(app: App, scope: Scope): AsyncGenerator<Found> {
  let names: { sha256: string; modifiedAt: Date; size: number }[] = []
  let done = 0
  for await (const file of app.files.list()) {
    names.push(file)
    if (names.length < batch) continue
    yield* withoutRow(app, names)
    names = []
    done += batch
    scope.onProgress(done)
  }
  yield* withoutRow(app, names)
  yield* withoutDocument(app)
}

async function* withoutRow(app: App, names: { sha256: string; modifiedAt: Date; size: number }[]): AsyncGenerator<Found> {
  const known = await app.db
    .selectFrom('stored_files')
    .select('sha256')
    .where('sha256', 'in', names.length > 0 ? names.map(({ sha256 }) => sha256) : [''])
    .execute()
  const rows = new Set(known.map(({ sha256 }) => sha256))
  for (const { sha256, modifiedAt, size } of names) {
    if (rows.has(sha256) || app.now().getTime() - modifiedAt.getTime() < grace) continue
    yield {
      severity: 'warning',
      message: 'a stored file that no document has',
      sha256,
      actual: size,
      repair: () => setAside(app, sha256),
    }
  }
}

/** Under the lock that uploads of the same bytes take: none of them is left without its file. */
const setAside = (app: App, sha256: string): Promise<string> =>
  app.db.transaction().execute(async (trx) => {
    await lockStored(trx, { sha256, size: 0 })
    const used = await trx.selectFrom('documents').select('id').where('sha256', '=', sha256).limit(1).executeTakeFirst()
    if (used) return 'a document has it by now'
    const place = await app.files.setAside(sha256)
    await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
    return `moved to ${place}`
  })

async function* withoutDocument(app: App): AsyncGenerator<Found> {
  let last = ''
  for (;;) {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from stored_files file where sha256 > ${last}
        and not exists (select from documents where documents.sha256 = file.sha256)
        and not exists (select from jobs where kind = 'purge' and payload ->> 'sha256' = file.sha256)
      order by sha256 limit ${batch}`.execute(app.db)
    for (const { sha256 } of rows) {
      yield {
        severity: 'warning',
        message: 'stored bytes that no document has, and that nothing is about to remove',
        sha256,
        async repair() {
          await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256 }, { dedupe: `purge:${sha256}` }))
          return 'will be removed by a worker'
        },
      }
    }
    if (rows.length < batch) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

async function* all(app: App, { signal, onProgress }: Scope): AsyncGenerator<Stored> {
  let last = ''
  for (let done = 0; ; ) {
    signal.throwIfAborted()
    const rows = await app.db
      .selectFrom('stored_files')
      .select(['sha256', 'size'])
      .where('sha256', '>', last)
      .orderBy('sha256')
      .limit(batch)
      .execute()
    for (const row of rows) {
      yield row
      onProgress(++done)
    }
    if (rows.length < batch) return
    last = rows.at(-1)?.sha256 ?? ''
  }
}

/** A finding for each document that has these bytes; none where the last of them went meanwhile. */
async function* perDocument(app: App, sha256: string, found: Omit<Found, 'sha256' | 'document_id'>): AsyncGenerator<Found> {
  const documents = await app.db.selectFrom('documents').select('id').where('sha256', '=', sha256).orderBy('id').execute()
  for (const { id } of documents) yield { ...found, sha256, document_id: id }
}
