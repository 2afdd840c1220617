/** Files that were fetched become documents, or new versions of them, and the ledger says so: all in one transaction. */
import type { Trx } from '../../db/pool.ts'
import { replaceFile } from '../../documents/replace-file.ts'
import { markSourceRestored } from '../../documents/source-removal.ts'
import { storeBatch } from '../../documents/store-batch.ts'
import { compareLargeFiles } from '../../documents/stored-files.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import type { Fetched, Version } from './fetch-file.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { Pulling, Want } from './sync-context.ts'

type Staged = Extract<Fetched, { outcome: 'staged' }>

interface Taken {
  counts: runs.Counts
  errors: runs.FileError[]
  /** what the database refers to from now on */
  stored: StagedFile[]
}

/** Takes them in, once and for all: after a crash none of them is fetched again. Throws RunLost. */
export async function takeIn(pulling: Pulling, fetched: readonly Fetched[]): Promise<void> {
  const staged = fetched.flatMap((each) => (each.outcome === 'staged' ? [each.staged] : []))
  try {
    await compareLargeFiles(pulling.app, pulling.from.ownerId, staged)
    const { counts, errors, stored } = await pulling.app.db.transaction().execute((trx) => write(pulling, trx, fetched))
    runs.tally(pulling.run, counts, errors)
    await Promise.all(stored.map((file) => file.confirm()))
  } finally {
    await Promise.all(staged.map((file) => file.discard()))
  }
}

async function write(pulling: Pulling, trx: Trx, fetched: readonly Fetched[]): Promise<Taken> {
  const { app, sourceId, run, from } = pulling
  await runs.hold(trx, run)
  const taken: Taken = { counts: runs.none(), errors: [], stored: [] }
  const entries: ledger.Entry[] = []
  const all = fetched.filter((each): each is Staged => each.outcome === 'staged')
  taken.counts.bytes = all.reduce((sum, { staged }) => sum + staged.size, 0)

  for (const each of fetched) {
    if (each.outcome === 'staged') continue
    taken.counts[each.outcome]++
    taken.errors.push({ path: each.want.file.path, code: each.code, message: each.message })
    entries.push(without(each))
  }

  const alive = await lockDocuments(trx, all)
  const olds = all.filter(({ want: { known } }) => known?.outcome === 'stored')
  for (const old of olds) entries.push(await again(pulling, trx, old, alive, taken))

  const fresh = all.filter((each) => !olds.includes(each))
  const elsewhere = await ledger.unseen(
    trx,
    sourceId,
    run.id,
    fresh.map(({ staged }) => staged.sha256),
  )
  const arrivals = fresh.filter(({ staged }) => !elsewhere.has(staged.sha256))
  const ids = await storeBatch(
    app,
    trx,
    from,
    arrivals.map(({ want, staged }) => ({ staged, path: want.file.path })),
  )
  for (const [index, { want, staged, version }] of arrivals.entries()) {
    entries.push(entry(want.file.path, version, staged.sha256, ids[index] ?? null, 'stored'))
    taken.stored.push(staged)
    taken.counts.created++
  }
  // Whether it is the same file under a new name is known once all of the source was seen.
  for (const { want, staged, version } of fresh)
    if (elsewhere.has(staged.sha256)) entries.push(entry(want.file.path, version, staged.sha256, null, 'moving'))

  await ledger.write(trx, sourceId, run.id, entries)
  await runs.count(trx, run, taken.counts, taken.errors)
  return taken
}

/** A file that is known came anew: other bytes are a new version, the same only another tag. What a user deleted stays deleted. */
async function again(
  { app, from }: Pulling,
  trx: Trx,
  { want, staged, version }: Staged,
  alive: ReadonlySet<string>,
  taken: Taken,
): Promise<ledger.Entry> {
  const { document_id, sha256, removed_at } = want.known as NonNullable<Want['known']>
  const { path } = want.file
  if (document_id === null || !alive.has(document_id)) {
    taken.counts.skipped++
    return entry(path, version, staged.sha256, null, 'stored')
  }
  const isNew = staged.sha256 !== sha256
  if (removed_at !== null) await markSourceRestored(app, trx, [document_id])
  if (isNew) {
    await replaceFile(app, trx, document_id, { staged, ocr: from.ocr, language: from.language })
    taken.stored.push(staged)
  }
  taken.counts[isNew || removed_at !== null ? 'updated' : 'unchanged']++
  return entry(path, version, staged.sha256, document_id, 'stored')
}

/** What is kept of a file that could not be had: a document that it has stays as it was. */
function without({ want: { file, known }, outcome }: Exclude<Fetched, Staged>): ledger.Entry {
  // Nothing of the version, so that the next run tries again.
  const version = { etag: null, size: null, modifiedAt: null }
  if (known?.outcome === 'stored') return entry(file.path, version, known.sha256, known.document_id, 'stored')
  return entry(file.path, version, null, null, outcome)
}

const entry = (
  path: string,
  { etag, size, modifiedAt }: Version,
  sha256: string | null,
  document_id: string | null,
  outcome: ledger.Entry['outcome'],
): ledger.Entry => ({ path, etag, size, modified_at: modifiedAt, sha256, document_id, outcome })

/** Users may be deleting them: the documents are locked first, as everybody does, and those that are there stay until we are done. */
async function lockDocuments(trx: Trx, all: readonly Staged[]): Promise<Set<string>> {
  const ids = all.flatMap(({ want: { known } }) => (known?.document_id ? [known.document_id] : []))
  if (ids.length === 0) return new Set()
  const rows = await trx.selectFrom('documents').select('id').where('id', 'in', ids).orderBy('id').forUpdate().execute()
  return new Set(rows.map(({ id }) => id))
}
