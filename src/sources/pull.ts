/** A run: walks the source beside the ledger, fetches what is new or changed, and then says what is gone. */
import { markBack } from '../documents/at-source.ts'
import { type SourceEntry, SourceFailure, type SourceFile } from '../ports/sources.ts'
import { conclude, type Seen } from './conclude.ts'
import * as folders from './folders.ts'
import { openIntake } from './intake.ts'
import * as ledger from './ledger.ts'
import type { Pulling, Want } from './pulling.ts'
import * as runs from './runs.ts'

/** Entries that are compared with the ledger at once, and for how long (ms) some may wait for more. */
const together = 500
const patience = 1000
/** Milliseconds between two events. */
const pace = 250
/** Rounds of that without news after which it is looked whether the run is still ours. */
const quietRounds = 4
/** Rounds after which what has come is taken in, however little it is: what is lost by a crash is fetched again. */
const takingRounds = 2
/** Bytes: a longer path does not fit into an index of the database. */
const maxPath = 2000

/** Runs to its end. Throws SourceFailure where the source cannot be listed, RunLost, and the signal's reason. */
export async function pull(given: Pulling): Promise<void> {
  const lost = new AbortController()
  const pulling = { ...given, signal: AbortSignal.any([given.signal, lost.signal]) }
  const { app, ownerId, run, signal } = pulling
  const seen: Seen = { files: 0, isAny: false, unsure: [], isWhole: true }
  let current: string | null = null
  const intake = openIntake(pulling, (path) => {
    current = path
  })

  let told = ''
  let quiet = 0
  let telling: Promise<void> | null = null
  let round = 0
  const tell = () => {
    if (++round % takingRounds === 0) intake.flush()
    if (telling) return
    const news = `${runs.processed(run)} ${seen.files} ${current}`
    if (news === told && ++quiet < quietRounds) return
    quiet = 0
    told = news
    telling = runs
      .tell(app, run, ownerId, seen.files, current)
      .catch((error) => {
        // A database out of reach is noticed by those who have something to write.
        if (error instanceof runs.RunLost) lost.abort(error)
      })
      .finally(() => {
        telling = null
      })
  }
  const timer = setInterval(tell, pace)
  try {
    await walk(pulling, seen, intake)
    await intake.end()
    current = null
    await conclude(pulling, seen)
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  } finally {
    clearInterval(timer)
    await intake.stop()
    await telling
  }
  await runs.complete(app, run, seen.files)
}

async function walk(pulling: Pulling, seen: Seen, intake: ReturnType<typeof openIntake>): Promise<void> {
  const { app, sourceId, connection, options, signal } = pulling
  const known = (path: string) => (options.full ? Promise.resolve(null) : folders.tagOf(app.db, sourceId, path))
  let some: SourceEntry[] = []
  let since = performance.now()
  let left = options.maxFiles ?? Number.POSITIVE_INFINITY
  for await (const entry of connection.walk({ known, signal })) {
    signal.throwIfAborted()
    some.push(entry)
    if (some.length < together && performance.now() - since < patience) continue
    left -= await compare(pulling, seen, intake, some, left)
    some = []
    since = performance.now()
    if (left > 0) continue
    seen.isWhole = false
    return
  }
  left -= await compare(pulling, seen, intake, some, left)
  if (left <= 0) seen.isWhole = false
}

/** What is to be done about each; how many files are to be fetched. */
async function compare(
  pulling: Pulling,
  seen: Seen,
  intake: ReturnType<typeof openIntake>,
  entries: readonly SourceEntry[],
  left: number,
): Promise<number> {
  const { app, sourceId, run, isWanted, options } = pulling
  const listed = new Map(entries.flatMap((entry) => (entry.kind === 'file' ? [[entry.file.path, entry.file]] : [])))
  if (listed.size > 0) seen.isAny = true
  const known = await ledger.find(app.db, sourceId, [...listed.keys()])
  const wants: Want[] = []
  const untouched: ledger.Known[] = []
  const counts = runs.none()
  const errors: runs.FileError[] = []
  for (const file of listed.values()) {
    const row = known.get(file.path) ?? null
    if (!isWanted(file.path)) {
      // Not wanted any more, but not gone either.
      if (row) untouched.push(row)
      continue
    }
    if (intake.has(file.path)) continue
    seen.files++
    // A run that was interrupted has counted it already.
    if (row?.run_id === run.id) continue
    const verdict = row ? verdictOn(row, file, options.full) : 'fetch'
    if (Buffer.byteLength(file.path) > maxPath) {
      counts.failed++
      errors.push({ path: file.path, code: 'SOURCE_PROTOCOL', message: `The path is longer than ${maxPath} bytes.` })
    } else if (verdict === 'fetch') wants.push({ file, known: row && kept(row) })
    else if (row) {
      untouched.push(row)
      if (verdict !== 'wait') counts[row.removed_at !== null && row.document_id !== null ? 'updated' : verdict]++
    }
  }
  for (const entry of entries) {
    if (entry.kind !== 'problem') continue
    counts.failed++
    errors.push({ path: entry.path, code: entry.code, message: entry.message })
    unsure(seen, entry.path)
  }
  await note(pulling, entries, untouched, counts, errors, seen)
  await intake.add(wants.slice(0, left))
  return wants.length
}

/** Without the rest of the row: many may wait. */
const kept = ({ outcome, sha256, document_id, removed_at }: ledger.Known): Want['known'] => ({ outcome, sha256, document_id, removed_at })

function verdictOn(row: ledger.Known, file: SourceFile, isFull: boolean): 'fetch' | 'unchanged' | 'skipped' | 'wait' {
  const isDeleted = row.outcome === 'stored' && row.document_id === null
  if (isDeleted) return 'skipped'
  if (isFull || !ledger.isSame(row, file)) return 'fetch'
  return row.outcome === 'moving' ? 'wait' : row.outcome === 'stored' ? 'unchanged' : 'fetch'
}

/** Writes down what needs no fetching. */
async function note(
  { app, sourceId, run }: Pulling,
  entries: readonly SourceEntry[],
  untouched: readonly ledger.Known[],
  counts: runs.Counts,
  errors: readonly runs.FileError[],
  seen: Seen,
): Promise<void> {
  const walked = new Map(entries.flatMap((entry) => (entry.kind === 'folder' && entry.etag !== null ? [[entry.path, entry.etag]] : [])))
  const pruned = entries.filter((entry) => entry.kind === 'folder' && entry.pruned) as { path: string }[]
  if (untouched.length + errors.length + walked.size + pruned.length === 0) return
  let below = 0
  await app.db.transaction().execute(async (trx) => {
    await runs.hold(trx, run)
    const back = untouched.flatMap(({ removed_at, document_id }) => (removed_at !== null && document_id !== null ? [document_id] : []))
    await markBack(app, trx, back)
    await ledger.see(
      trx,
      sourceId,
      run.id,
      untouched.map(({ path }) => path),
    )
    await folders.see(trx, sourceId, run.id, walked)
    for (const { path } of pruned) {
      below += await ledger.seeBelow(trx, sourceId, run.id, path)
      await folders.seeBelow(trx, sourceId, run.id, path)
    }
    await runs.count(trx, run, { ...counts, unchanged: counts.unchanged + below }, errors)
  })
  runs.tally(run, { ...counts, unchanged: counts.unchanged + below }, errors)
  seen.files += below
  if (pruned.length > 0) seen.isAny = true
}

/** More places than these are not told apart: then nothing at all is known to be gone. */
const maxUnsure = 1000

function unsure(seen: Seen, path: string): void {
  seen.unsure = seen.unsure.length < maxUnsure ? [...seen.unsure, path] : ['']
}

/** What would be fetched, without fetching it. */
export async function* plan(pulling: Omit<Pulling, 'run'>): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
  const { app, sourceId, connection, options, signal, isWanted } = pulling
  const known = (path: string) => (options.full ? Promise.resolve(null) : folders.tagOf(app.db, sourceId, path))
  let some: SourceFile[] = []
  const look = async () => {
    const rows = await ledger.find(
      app.db,
      sourceId,
      some.map(({ path }) => path),
    )
    const found = some.map((file) => ({ file, row: rows.get(file.path) }))
    some = []
    return found.filter(({ file, row }) => !row || verdictOn(row, file, options.full) === 'fetch')
  }
  let count = 0
  for await (const entry of connection.walk({ known, signal })) {
    if (entry.kind === 'problem') throw new SourceFailure(entry.code, `${entry.path}: ${entry.message}`)
    if (entry.kind === 'file' && isWanted(entry.file.path)) some.push(entry.file)
    if (some.length < together) continue
    for (const { file, row } of await look()) {
      if (count++ === options.maxFiles) return
      yield { action: row?.document_id ? 'updated' : 'created', file }
    }
  }
  for (const { file, row } of await look()) {
    if (count++ === options.maxFiles) return
    yield { action: row?.document_id ? 'updated' : 'created', file }
  }
}
