/** Verifies the index: finds documents without an entry and entries without a document. Compares a sample word by word and searches for it. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { type EntryFault, type IndexContents, noFilter, type SearchFilter } from '../ports/search-engine.ts'
import { slicesOf } from '../slices.ts'
import type { IndexedDocument } from './indexed-documents.ts'

export interface VerifyOptions {
  /** number of random documents whose words are compared; other documents only need an entry */
  sample: number
  signal?: AbortSignal
  onProgress?: (done: number, total: number) => void
}

/** `missing`: a document without entry; `extra`: an entry without document; `stale`: an entry with wrong words; `unfound`: a search does not find the document. */
export interface Fault {
  document_id: string
  problem: EntryFault['problem'] | 'unfound'
  /** engine of the index; for `unfound`: engine of the search */
  engine: string
  /** for `unfound`: field that the query was taken from */
  field: 'title' | 'content' | null
  /** for `unfound`: the query */
  query: string | null
  /** for `stale`: words or values found only in the entry, and found only in the document; both truncated */
  left: readonly string[]
  lacks: readonly string[]
}

type Sampled = Pick<IndexedDocument, 'id' | 'owner_id' | 'source_id' | 'mime_type' | 'created_at' | 'title' | 'content' | 'label_ids'>

/** Documents per batch. */
const batchSize = 20
/** Maximum number of reported missing entries, and of reported extra entries. */
const maxUnmatched = 1000
/** Maximum number of reported words of an entry. */
const maxWords = 20
/** Number of phrases of a text that are searched for. */
const phraseCount = 4

/** Yields faults, except of documents that wait to be indexed. Returns the size of the sample. Throws SERVICE_UNAVAILABLE. */
export async function* verify(app: App, { sample, signal, onProgress }: VerifyOptions): AsyncGenerator<Fault, number> {
  const indexes = app.search.contents()
  for (const index of indexes) {
    const suspects = await loadUnmatched(app, index, signal)
    for (const batch of slicesOf(suspects, batchSize)) {
      signal?.throwIfAborted()
      yield* confirmedFaults(app, index, batch)
    }
  }
  const { rows: sampled } = await sql<{ id: string }>`select id from live_documents order by random() limit ${sample}`.execute(app.db)
  let done = 0
  for (const batch of slicesOf(sampled, batchSize)) {
    const ids = batch.map(({ id }) => id)
    for (const index of indexes) for await (const fault of confirmedFaults(app, index, ids)) if (fault.problem === 'stale') yield fault
    for (const document of await loadDocuments(app, ids)) {
      signal?.throwIfAborted()
      yield* await confirmedUnfound(app, document)
      onProgress?.(++done, sampled.length)
    }
  }
  return done
}

/** Returns ids of entries without document, and of documents without entry. */
function loadUnmatched(app: App, index: IndexContents, signal: AbortSignal | undefined): Promise<string[]> {
  return app.db.transaction().execute(async (trx) => {
    await sql`create temporary table index_entries (id text primary key) on commit drop`.execute(trx)
    for await (const ids of index.ids()) {
      signal?.throwIfAborted()
      await sql`insert into index_entries select unnest(${[...ids]}::text[]) on conflict do nothing`.execute(trx)
    }
    const { rows } = await sql<{ id: string }>`
      (select id::text from live_documents except select id from index_entries limit ${maxUnmatched})
      union all (select id from index_entries except select id::text from live_documents limit ${maxUnmatched})`.execute(trx)
    return rows.map(({ id }) => id)
  })
}

/** Yields the faults that two checks find. Ignores documents that wait to be indexed after either check. */
async function* confirmedFaults(app: App, index: IndexContents, ids: readonly string[]): AsyncGenerator<Fault> {
  const first = await index.faults(ids)
  const idle = await withoutWaiting(app, first)
  if (idle.length === 0) return
  const second = await index.faults(idle.map(({ document_id }) => document_id))
  for (const { document_id, problem, left, lacks } of await withoutWaiting(app, second))
    if (idle.some((one) => one.document_id === document_id && one.problem === problem))
      yield {
        document_id,
        problem,
        engine: index.engine,
        field: null,
        query: null,
        left: left.slice(0, maxWords),
        lacks: lacks.slice(0, maxWords),
      }
}

async function withoutWaiting(app: App, faults: readonly EntryFault[]): Promise<EntryFault[]> {
  if (faults.length === 0) return []
  const { rows } = await sql<{ id: string | null }>`
    select payload->>'document_id' as id from jobs
    where kind in ('index', 'reindex') and status in ('pending', 'processing')
      and (kind = 'reindex' or payload->>'document_id' = any(${faults.map(({ document_id }) => document_id)}::text[]))`.execute(app.db)
  const waiting = new Set(rows.map(({ id }) => id))
  // A reindex has no document: it concerns all of them.
  if (waiting.has(null)) return []
  const stale = faults.filter(({ problem }) => problem === 'stale').map(({ document_id }) => document_id)
  const { rows: reading } = await sql<{ id: string }>`
    select id from live_documents where id = any(${stale}::uuid[]) and status in ('pending', 'processing')`.execute(app.db)
  // The end of the extraction indexes them again.
  for (const { id } of reading) waiting.add(id)
  return faults.filter(({ document_id }) => !waiting.has(document_id))
}

async function loadDocuments(app: App, ids: readonly string[]): Promise<Sampled[]> {
  const { rows } = await sql<Sampled>`
    select id, owner_id, source_id, mime_type, created_at, title, content,
      array(select label_id from document_labels where document_id = documents.id) as label_ids
    from live_documents documents where id = any(${ids}::uuid[])`.execute(app.db)
  return rows
}

/**
 * Returns the queries that do not find the document in two checks. Ignores a document that waits to be indexed after either check. One check is not
 * enough: a job may end between the search and the query of the queue.
 */
async function confirmedUnfound(app: App, document: Sampled): Promise<Fault[]> {
  if ((await findUnfound(app, document)).length === 0 || (await isBeingIndexed(app, document))) return []
  const [again] = await loadDocuments(app, [document.id])
  if (!again) return []
  const missing = await findUnfound(app, again)
  return missing.length > 0 && (await isBeingIndexed(app, again)) ? [] : missing
}

async function findUnfound(app: App, document: Sampled): Promise<Fault[]> {
  const missing: Fault[] = []
  const about = { document_id: document.id, problem: 'unfound', engine: app.search.name, left: [], lacks: [] } as const
  for (const field of ['title', 'content'] as const)
    for (const query of samplePhrases(document[field])) if (!(await isFound(app, document, query))) missing.push({ ...about, field, query })
  return missing
}

/** One to four words of letters, separated by spaces. */
const phrasePattern = /(?<![\p{L}\p{N}\p{M}\p{Cf}])\p{L}{2,30}(?: \p{L}{2,30}){0,3}(?![\p{L}\p{N}\p{M}\p{Cf}])/gu

/** Returns phrases from equal parts of a text. */
function samplePhrases(text: string): string[] {
  const size = Math.max(1, Math.ceil(text.length / phraseCount))
  const sampled = Array.from({ length: phraseCount }, (_, part) => {
    // Never begin inside a word.
    const from = part === 0 ? 0 : text.indexOf(' ', part * size)
    return from < 0 ? undefined : new RegExp(phrasePattern).exec(text.slice(from))?.[0]
  })
  return [...new Set(sampled.filter((phrase) => phrase !== undefined))].map((phrase) => `"${phrase}"`)
}

async function isFound(app: App, document: Sampled, text: string): Promise<boolean> {
  const { owner_id, source_id, mime_type, label_ids, created_at } = document
  const filter: SearchFilter = {
    ...noFilter,
    ownerId: owner_id,
    mimeTypes: [mime_type],
    labelIds: label_ids,
    sourceId: source_id,
    // JavaScript has milliseconds, the database microseconds.
    from: created_at,
    to: new Date(created_at.getTime() + 1),
  }
  const page = { offset: 0, limit: 1000, maxResults: 1000 }
  const { hits, isCapped } = await app.search.search({ text, fuzzy: false, highlight: false, filter, ...page })
  // If more documents have this creation time, it may be one that is not returned.
  return isCapped || hits.some(({ document_id }) => document_id === document.id)
}

/** Returns whether a document waits to be indexed, or has changed since it was loaded. */
async function isBeingIndexed(app: App, { id, title, created_at }: Sampled): Promise<boolean> {
  const { rows } = await sql<{ same: boolean; waits: boolean }>`
    select (select title = ${title} and date_trunc('milliseconds', created_at) = ${created_at} from live_documents where id = ${id}) as same,
      exists (select from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')
        and (kind = 'reindex' or payload->>'document_id' = ${id})) as waits`.execute(app.db)
  return rows[0]!.waits || !rows[0]!.same
}
