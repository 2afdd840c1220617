/** What is to be done about the files of a listing: they are held against the ledger, some at a time. */
import { markSourceRestored } from '../../documents/source-removal.ts'
import type { SourceEntry } from '../../ports/source-type.ts'
import { matching } from '../globs.ts'
import type { Intake } from './fetch-queue.ts'
import * as folders from './folder-tags.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { Pulling, Want } from './sync-context.ts'
import { areDue, doubt, noMarks, type Seen } from './walk-state.ts'

/** Bytes: a longer path does not fit into an index of the database. */
const maxPath = 2000

/** What has to be written down at once. */
interface News {
  /** files that were gone */
  back: ledger.Known[]
  counts: runs.Counts
  errors: runs.FileError[]
  /** folders that were walked to their ends, with their tags */
  walked: Map<string, string>
  /** folders that were not entered */
  pruned: string[]
}

/** Counts what is as it was, and gives the rest to the intake, `left` at most; how many files there are to be fetched. Throws RunLost. */
export async function compare(
  pulling: Pulling,
  seen: Seen,
  intake: Intake,
  entries: readonly SourceEntry[],
  left: number,
): Promise<number> {
  const { app, sourceId, run, globs, options } = pulling
  const listed = new Map(entries.flatMap((entry) => (entry.kind === 'file' ? [[entry.file.path, entry.file]] : [])))
  if (listed.size > 0) seen.isAny = true
  const matched = await matching(globs, listed.keys())
  const notable = await ledger.compare(app.db, sourceId, run.id, [...listed.values()], options.full)
  const wants: Want[] = []
  const news = newsOf(entries)
  for (const { path } of news.errors) doubt(seen, path)
  for (const file of listed.values()) {
    const { path } = file
    if (seen.marks.paths.has(path) || intake.has(path)) continue
    const row = notable.get(path)
    if (!matched.has(path)) {
      // Not wanted any more, but not gone either.
      if (row?.removed_at) news.back.push(row)
      else if (row !== null) seen.marks.paths.add(path)
      continue
    }
    seen.files++
    // A run that was interrupted has counted it already.
    if (row?.run_id === run.id) continue
    const verdict = verdictOn(row, options.full)
    if (Buffer.byteLength(path) > maxPath) {
      news.counts.failed++
      news.errors.push({ path, code: 'SOURCE_PROTOCOL', message: `The path is longer than ${maxPath} bytes.` })
    } else if (verdict === 'fetch') wants.push({ file, known: row ? kept(row) : null })
    else if (row?.removed_at) {
      news.back.push(row)
      if (verdict !== 'wait') news.counts[row.document_id === null ? verdict : 'updated']++
    } else {
      seen.marks.paths.add(path)
      if (verdict === 'wait') continue
      seen.marks.counts[verdict]++
      run[verdict]++
    }
  }
  // What is fetched may be one of the others under a new name: by then it must be known which of them are there.
  if (wants.length > 0 || areDue(seen.marks) || isAny(news)) await note(pulling, seen, news)
  await intake.add(wants.slice(0, left))
  return wants.length
}

/** Writes down what was seen and is not written yet. Throws RunLost. */
export const settleMarks = (pulling: Pulling, seen: Seen): Promise<void> => note(pulling, seen, newsOf([]))

/** Undefined: it is as it was; null: nothing is known of it. */
export function verdictOn(row: ledger.Compared | null | undefined, isFull: boolean): 'fetch' | 'unchanged' | 'skipped' | 'wait' {
  if (row === undefined) return 'unchanged'
  if (row === null) return 'fetch'
  const isDeleted = row.outcome === 'stored' && row.document_id === null
  if (isDeleted) return 'skipped'
  if (isFull || !row.is_same) return 'fetch'
  return row.outcome === 'moving' ? 'wait' : row.outcome === 'stored' ? 'unchanged' : 'fetch'
}

/** Without the rest of the row: many may wait. */
const kept = ({ outcome, sha256, document_id, removed_at }: ledger.Known): Want['known'] => ({ outcome, sha256, document_id, removed_at })

function newsOf(entries: readonly SourceEntry[]): News {
  const news: News = { back: [], counts: runs.none(), errors: [], walked: new Map(), pruned: [] }
  for (const entry of entries) {
    if (entry.kind === 'folder' && entry.isPruned) news.pruned.push(entry.path)
    else if (entry.kind === 'folder' && entry.etag !== null) news.walked.set(entry.path, entry.etag)
    else if (entry.kind === 'problem') {
      news.counts.failed++
      news.errors.push({ path: entry.path, code: entry.code, message: entry.message })
    }
  }
  return news
}

const isAny = ({ back, errors, walked, pruned }: News): boolean => back.length + errors.length + walked.size + pruned.length > 0

async function note({ app, sourceId, run }: Pulling, seen: Seen, news: News): Promise<void> {
  const late = seen.marks
  if (late.paths.size === 0 && !isAny(news)) return
  const { back, counts, errors, walked, pruned } = news
  let below = 0
  await app.db.transaction().execute(async (trx) => {
    await runs.hold(trx, run)
    const documents = back.flatMap(({ document_id }) => (document_id === null ? [] : [document_id]))
    await markSourceRestored(app, trx, documents)
    await ledger.see(trx, sourceId, run.id, [...late.paths, ...back.map(({ path }) => path)])
    await folders.see(trx, sourceId, run.id, walked)
    for (const path of pruned) {
      below += await ledger.seeBelow(trx, sourceId, run.id, path)
      await folders.seeBelow(trx, sourceId, run.id, path)
    }
    await runs.count(trx, run, runs.sum(counts, { ...late.counts, unchanged: late.counts.unchanged + below }), errors)
  })
  seen.marks = noMarks()
  runs.tally(run, { ...counts, unchanged: counts.unchanged + below }, errors)
  seen.files += below
  if (pruned.length > 0) seen.isAny = true
}
