/** Whether documents are found by what they hold: looked for as anybody would, in the index in force. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { SearchFilter } from '../ports/search.ts'

export interface VerifyOptions {
  /** documents, picked at random */
  sample: number
  signal?: AbortSignal
  onProgress?: (done: number, total: number) => void
}

/** Words of a document by which it is not found. */
export interface Unfound {
  document_id: string
  field: 'title' | 'content'
  /** what was searched for */
  query: string
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
const atOnce = 20
/** Of one text: from its beginning, its end, and between. */
const places = 4

/** Says which are not found, by their owner, type, labels, source and time together with their words; those that wait to be indexed are left out. Throws SERVICE_UNAVAILABLE. Returns how many were looked for. */
export async function* verify(app: App, { sample, signal, onProgress }: VerifyOptions): AsyncGenerator<Unfound, number> {
  const { rows: picked } = await sql<{ id: string }>`select id from documents order by random() limit ${sample}`.execute(app.db)
  let done = 0
  for (let start = 0; start < picked.length; start += atOnce) {
    const ids = picked.slice(start, start + atOnce).map(({ id }) => id)
    for (const document of await documentsOf(app, ids)) {
      signal?.throwIfAborted()
      const missing = await missingOf(app, document)
      // What changed since it was read is not looked at again: its job is there to be seen.
      if (missing.length > 0 && !(await isUnderway(app, document))) yield* missing
      onProgress?.(++done, picked.length)
    }
  }
  return done
}

async function documentsOf(app: App, ids: readonly string[]): Promise<Sampled[]> {
  const { rows } = await sql<Sampled>`
    select id, owner_id, source_id, mime_type, created_at, title, content,
      array(select label_id from document_labels where document_id = documents.id) as label_ids
    from documents where id = any(${ids}::uuid[])`.execute(app.db)
  return rows
}

async function missingOf(app: App, document: Sampled): Promise<Unfound[]> {
  const missing: Unfound[] = []
  for (const field of ['title', 'content'] as const)
    for (const query of phrases(document[field]))
      if (!(await isFound(app, document, query))) missing.push({ document_id: document.id, field, query })
  return missing
}

/** One to four plain words in a row. */
const row = /(?<![\p{L}\p{N}\p{M}\p{Cf}])\p{L}{2,30}(?: \p{L}{2,30}){0,3}(?![\p{L}\p{N}\p{M}\p{Cf}])/gu

/** Some phrases of a text, from all over it. */
function phrases(text: string): string[] {
  const size = Math.max(1, Math.ceil(text.length / places))
  const found = Array.from({ length: places }, (_, place) => {
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
async function isUnderway(app: App, { id, title, created_at }: Sampled): Promise<boolean> {
  const { rows } = await sql<{ same: boolean; waits: boolean }>`
    select (select title = ${title} and date_trunc('milliseconds', created_at) = ${created_at} from documents where id = ${id}) as same,
      exists (select from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')
        and (kind = 'reindex' or payload->>'document_id' = ${id})) as waits`.execute(app.db)
  return rows[0]!.waits || !rows[0]!.same
}
