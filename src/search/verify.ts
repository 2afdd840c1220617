/** Whether the index holds what the documents hold: every entry has its document and every document its entry; some are looked at word by word, and looked for as anybody would. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { EntryFault, IndexContents, SearchFilter } from '../ports/search-engine.ts'

export interface VerifyOptions {
  /** documents whose words are looked at, picked at random; of all others only whether they have an entry */
  sample: number
  signal?: AbortSignal
  onProgress?: (done: number, total: number) => void
}

/**
 * `missing`: a document without an entry; `extra`: an entry without a document; `stale`: an entry with words that the document has no more, or without
 * some that it has; `unfound`: a document that is not found by what was searched for.
 */
export interface Fault {
  document_id: string
  problem: EntryFault['problem'] | 'unfound'
  /** which engine's index it is in; that of a search for `unfound` */
  engine: string
  /** of `unfound`: where the words stand */
  field: 'title' | 'content' | null
  /** of `unfound`: what was searched for */
  query: string | null
  /** of `stale`: some of the words, or values, that the document has no more, and of those that the entry lacks */
  left: readonly string[]
  lacks: readonly string[]
}

interface Sampled {
  id: string
  owner_id: string
  source_id: string | null
  mime_type: string
  created_at: Date
  title: string
  content: string
  label_ids: string[]
}

/** Documents that are read at once. */
const batchSize = 20
/** Missing and extra entries that are told of, of each kind: more of them are all alike. */
const maxUnmatched = 1000
/** Words of an entry that are told of. */
const maxWords = 20
/** Of one text: from its beginning, its end, and between. */
const phraseCount = 4

/** Says what is wrong; what waits to be indexed is left out. Throws SERVICE_UNAVAILABLE. Returns of how many documents the words were looked at. */
export async function* verify(app: App, { sample, signal, onProgress }: VerifyOptions): AsyncGenerator<Fault, number> {
  const indexes = app.search.contents()
  for (const index of indexes) {
    const suspects = await unmatched(app, index, signal)
    for (let start = 0; start < suspects.length; start += batchSize) {
      signal?.throwIfAborted()
      yield* faultsOf(app, index, suspects.slice(start, start + batchSize))
    }
  }
  const { rows: picked } = await sql<{ id: string }>`select id from documents order by random() limit ${sample}`.execute(app.db)
  let done = 0
  for (let start = 0; start < picked.length; start += batchSize) {
    const ids = picked.slice(start, start + batchSize).map(({ id }) => id)
    for (const index of indexes) for await (const fault of faultsOf(app, index, ids)) if (fault.problem === 'stale') yield fault
    for (const document of await documentsOf(app, ids)) {
      signal?.throwIfAborted()
      yield* await unfoundOf(app, document)
      onProgress?.(++done, picked.length)
    }
  }
  return done
}

/** Ids of entries that seem to have no document, and of documents that seem to have no entry. */
function unmatched(app: App, index: IndexContents, signal: AbortSignal | undefined): Promise<string[]> {
  return app.db.transaction().execute(async (trx) => {
    // The ids of a million documents are nothing to a database.
    await sql`create temporary table seen_entries (id text primary key) on commit drop`.execute(trx)
    for await (const ids of index.ids()) {
      signal?.throwIfAborted()
      await sql`insert into seen_entries select unnest(${[...ids]}::text[]) on conflict do nothing`.execute(trx)
    }
    const { rows } = await sql<{ id: string }>`
      (select id::text from documents except select id from seen_entries limit ${maxUnmatched})
      union all (select id from seen_entries except select id::text from documents limit ${maxUnmatched})`.execute(trx)
    return rows.map(({ id }) => id)
  })
}

/** What is wrong with the entries of these, and was so a moment before, while none of them waited to be indexed. */
async function* faultsOf(app: App, index: IndexContents, ids: readonly string[]): AsyncGenerator<Fault> {
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
  // A reindex names no document: it is about all of them.
  if (waiting.has(null)) return []
  const stale = faults.filter(({ problem }) => problem === 'stale').map(({ document_id }) => document_id)
  const { rows: reading } = await sql<{ id: string }>`
    select id from documents where id = any(${stale}::uuid[]) and status in ('pending', 'processing')`.execute(app.db)
  // That a document is being read is told to the index when it has been.
  for (const { id } of reading) waiting.add(id)
  return faults.filter(({ document_id }) => !waiting.has(document_id))
}

async function documentsOf(app: App, ids: readonly string[]): Promise<Sampled[]> {
  const { rows } = await sql<Sampled>`
    select id, owner_id, source_id, mime_type, created_at, title, content,
      array(select label_id from document_labels where document_id = documents.id) as label_ids
    from documents where id = any(${ids}::uuid[])`.execute(app.db)
  return rows
}

/** What a document is not found by, now and a moment before, while it did not wait to be indexed: a job that ended in between is not to be seen. */
async function unfoundOf(app: App, document: Sampled): Promise<Fault[]> {
  if ((await missingOf(app, document)).length === 0 || (await isBeingIndexed(app, document))) return []
  const [again] = await documentsOf(app, [document.id])
  if (!again) return []
  const missing = await missingOf(app, again)
  return missing.length > 0 && (await isBeingIndexed(app, again)) ? [] : missing
}

async function missingOf(app: App, document: Sampled): Promise<Fault[]> {
  const missing: Fault[] = []
  const about = { document_id: document.id, problem: 'unfound', engine: app.search.name, left: [], lacks: [] } as const
  for (const field of ['title', 'content'] as const)
    for (const query of phrases(document[field])) if (!(await isFound(app, document, query))) missing.push({ ...about, field, query })
  return missing
}

/** One to four plain words in a row. */
const row = /(?<![\p{L}\p{N}\p{M}\p{Cf}])\p{L}{2,30}(?: \p{L}{2,30}){0,3}(?![\p{L}\p{N}\p{M}\p{Cf}])/gu

/** Some phrases of a text, from all over it. */
function phrases(text: string): string[] {
  const size = Math.max(1, Math.ceil(text.length / phraseCount))
  const found = Array.from({ length: phraseCount }, (_, place) => {
    // Not from the middle of a word.
    const from = place === 0 ? 0 : text.indexOf(' ', place * size)
    return from < 0 ? undefined : new RegExp(row).exec(text.slice(from))?.[0]
  })
  return [...new Set(found.filter((phrase) => phrase !== undefined))].map((phrase) => `"${phrase}"`)
}

async function isFound(app: App, document: Sampled, text: string): Promise<boolean> {
  const { owner_id, source_id, mime_type, label_ids, created_at } = document
  const filter: SearchFilter = {
    ownerId: owner_id,
    mimeTypes: [mime_type],
    notMimeTypes: [],
    labelIds: label_ids,
    notLabelIds: [],
    status: [],
    sourceId: source_id,
    // Milliseconds here, microseconds there.
    from: created_at,
    to: new Date(created_at.getTime() + 1),
    minConfidence: null,
  }
  const most = { offset: 0, limit: 1000, maxResults: 1000 }
  const { hits, isCapped } = await app.search.search({ text, fuzzy: false, highlight: false, filter, ...most })
  // Of more than that at the same moment, it may be one that is not shown.
  return isCapped || hits.some(({ document_id }) => document_id === document.id)
}

/** Whether it waits to be indexed, or is not as it was read. */
async function isBeingIndexed(app: App, { id, title, created_at }: Sampled): Promise<boolean> {
  const { rows } = await sql<{ same: boolean; waits: boolean }>`
    select (select title = ${title} and date_trunc('milliseconds', created_at) = ${created_at} from documents where id = ${id}) as same,
      exists (select from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')
        and (kind = 'reindex' or payload->>'document_id' = ${id})) as waits`.execute(app.db)
  return rows[0]!.waits || !rows[0]!.same
}
