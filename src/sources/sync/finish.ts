/** The end of a run: what can only be said once all of the source was seen. */
import { buffer } from 'node:stream/consumers'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { markSourceRemoved, renameDocument } from '../../documents/source-removal.ts'
import { storeBatch } from '../../documents/store-batch.ts'
import { lockExisting } from '../../documents/stored-files.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { settleMarks } from './compare.ts'
import * as folders from './folder-tags.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { Pulling } from './sync-context.ts'
import type { Seen } from './walk-state.ts'

/** Files that one transaction deals with. */
const together = 200
/** Bytes that tell the type of a file. */
const headSize = 4100

/** Settles moves, marks what is gone, and keeps the folders' tags. */
export async function conclude(pulling: Pulling, seen: Seen): Promise<void> {
  const { app, sourceId, run, signal } = pulling
  if (!seen.isWhole) return
  if (!seen.isAny && !(await ledger.isEmpty(app.db, sourceId))) {
    // More likely a share that is not mounted than one that somebody emptied.
    const error = { path: '', code: 'SOURCE_EMPTY', message: 'The source has no files at all now. None of them is taken for removed.' }
    await counted(pulling, async () => ({ counts: {}, errors: [error] }))
    return
  }
  const { files, is_moving } = await ledger.unmarked(app.db, sourceId, run.id)
  // All that is not marked was seen: nothing is gone, and nobody needs the marks.
  const isAllThere = files === seen.marks.paths.size && !is_moving
  if (!isAllThere) await settleMarks(pulling, seen)
  for (let more = !isAllThere; more; ) {
    signal.throwIfAborted()
    more = await counted(pulling, (trx) => settleMoves(pulling, trx, seen.unsure))
  }
  for (let more = !isAllThere; more; ) {
    signal.throwIfAborted()
    more = await counted(pulling, async (trx) => {
      const gone = await ledger.remove(trx, sourceId, run.id, seen.unsure, app.now(), together)
      if (gone) await markSourceRemoved(app, trx, gone.documents)
      return gone && { counts: { removed: gone.documents.length } }
    })
  }
  if (!(await folders.isAny(app.db, sourceId))) return
  await counted(pulling, async (trx) => {
    await folders.keep(trx, sourceId, run.id, seen.unsure)
    return null
  })
}

type Done = { counts: Partial<runs.Counts>; errors?: readonly runs.FileError[] }

/** Does it in a transaction of the run and counts what it came to; false where it says that there is nothing left. */
async function counted({ app, run }: Pulling, work: (trx: Trx) => Promise<Done | null>): Promise<boolean> {
  const done = await app.db.transaction().execute(async (trx) => {
    await runs.hold(trx, run)
    const result = await work(trx)
    if (result) await runs.count(trx, run, result.counts, result.errors)
    return result
  })
  if (done) runs.tally(run, done.counts, done.errors)
  return done !== null
}

/** The same bytes under a new path: the old file moved there, or is there still, and this is a copy. */
async function settleMoves(pulling: Pulling, trx: Trx, unsure: readonly string[]): Promise<Done | null> {
  const { app, sourceId, run, from } = pulling
  const moving = await ledger.moving(trx, sourceId, run.id, together)
  if (moving.length === 0) return null
  const counts = runs.none()
  const errors: runs.FileError[] = []
  const entries: ledger.Entry[] = []
  for (const file of moving) {
    const { path, etag, size, modified_at, sha256 } = file
    const before = await ledger.vanished(trx, sourceId, run.id, file, unsure)
    if (before) {
      await ledger.forget(trx, sourceId, before.path)
      if (before.document_id !== null) await renameDocument(app, trx, before.document_id, path)
      entries.push({ path, etag, size, modified_at, sha256, document_id: before.document_id, outcome: 'stored' })
      counts[before.document_id === null ? 'skipped' : 'updated']++
      continue
    }
    const staged = await stagedAlready(app, trx, sha256 ?? '')
    if (staged) {
      const [document_id = null] = await storeBatch(app, trx, from, [{ staged, path }])
      entries.push({ path, etag, size, modified_at, sha256, document_id, outcome: 'stored' })
      counts.created++
    } else {
      // Whoever had the bytes was deleted meanwhile; the next run fetches them.
      entries.push({ path, etag: null, size: null, modified_at: null, sha256: null, document_id: null, outcome: 'failed' })
      counts.failed++
      errors.push({
        path,
        code: 'FILE_MISSING',
        message: 'Another file with the same content was deleted just now. The next sync fetches this one.',
      })
    }
  }
  await ledger.write(trx, sourceId, run.id, entries)
  return { counts, errors }
}

/** Bytes that the store has, null where it has none. Their row is locked: neither their address nor they themselves go before the transaction ends. */
async function stagedAlready(app: App, trx: Trx, sha256: string): Promise<StagedFile | null> {
  const address = await lockExisting(trx, sha256)
  const size = address === undefined ? null : await app.files.size(address)
  if (address === undefined || size === null) return null
  const head = await app.files.read(address, { start: 0, end: Math.min(size, headSize) - 1 }).then(buffer)
  return {
    sha256,
    address,
    size,
    head,
    equals: async (other) => other === address,
    commit: async () => {},
    confirm: async () => {},
    discard: async () => {},
  }
}
