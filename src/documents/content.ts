/** Answers with whole texts. The part of a text that was not read with its document is streamed in chunks over a separate connection. */
import { type RawBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Row } from '../db/schema.ts'
import { integerText } from '../http/input.ts'
import { StreamedAnswer, StreamedText, streamedJson } from '../http/streamed-json.ts'
import { type Document, type DocumentView, headLength, trashView, view } from './view.ts'

/** PostgreSQL decompresses the whole text for each chunk: 30 ms for 20 million characters. */
const chunkBytes = 2 << 20

/** Streams the UTF-8 bytes of the text that follow `document.content`. Throws if the text is replaced or deleted meanwhile. */
function streamRest(app: App, { id, content, processed_at }: Document): AsyncGenerator<Uint8Array> {
  const row = sql`documents where id = ${id} and date_trunc('milliseconds', processed_at) is not distinct from ${processed_at}::timestamptz`
  return streamColumn(app, content, 'content', row)
}

/** Streams the bytes of a text column after `head`, in chunks by byte offset. Character offsets take PostgreSQL ten times as long. */
async function* streamColumn(app: App, head: string, column: string, row: RawBuilder<unknown>): AsyncGenerator<Uint8Array> {
  for (let from = Buffer.byteLength(head); ; from += chunkBytes) {
    const { rows } = await sql<{ chunk: Buffer | null }>`
      select substring(convert_to(${sql.ref(column)}, 'UTF8') from ${from + 1}::int for ${chunkBytes}::int) as chunk
      from ${row}`.execute(app.database.texts)
    const chunk = rows[0]?.chunk
    if (!chunk) throw new Error('the text was replaced while it was sent')
    if (chunk.length > 0) yield chunk
    if (chunk.length < chunkBytes) return
  }
}

/** Returns the API view of a document with its whole text, streamed if it is long. */
export function viewWithContent(app: App, document: Document): Omit<DocumentView, 'content'> & { content?: string | StreamedText } {
  const { content_truncated, ...fields } = { ...view(document), ...trashView(app, document) }
  return content_truncated ? { ...fields, content: new StreamedText(document.content, () => streamRest(app, document)) } : fields
}

/** Returns the response body for a document with its whole text. */
export const documentResponse = (app: App, document: Document): object =>
  document.content_truncated ? streamedJson(viewWithContent(app, document)) : { ...view(document), ...trashView(app, document) }

/** Returns the text of a document as a response. */
export const textResponse = (app: App, document: Document, headers: Readonly<Record<string, string>>): Response | StreamedAnswer =>
  document.content_truncated ? new StreamedAnswer(streamText(app, document), headers) : new Response(document.content, { headers })

/** Returns a response with the text of an old version. */
export async function versionTextResponse(
  app: App,
  id: string,
  number: number,
  headers: Readonly<Record<string, string>>,
): Promise<Response | StreamedAnswer> {
  const row = sql`document_versions where document_id = ${id} and number = ${number}`
  const { rows } = await sql<{ head: string | null; is_longer: boolean }>`
    select left(content, ${sql.lit(headLength)}) as head, substr(content, ${sql.lit(headLength + 1)}, 1) <> '' as is_longer from ${row}`.execute(
    app.database.texts,
  )
  const head = rows[0]?.head ?? ''
  if (!rows[0]?.is_longer) return new Response(head, { headers })
  async function* stream() {
    yield head
    yield* streamColumn(app, head, 'content', row)
  }
  return new StreamedAnswer(stream(), headers)
}

async function* streamText(app: App, document: Document): AsyncGenerator<string | Uint8Array> {
  yield document.content
  yield* streamRest(app, document)
}

export const PagesQuery = z.object({
  from: integerText(1, 1_000_000).default(1).describe('Number of the first page.'),
  limit: integerText(1, 1_000_000).optional().describe('Number of pages. Default: all.'),
})
const PageAnswer = z.object({
  page: z.int(),
  text: z.string(),
  source: z.enum(['text_layer', 'ocr', 'empty']).nullable(),
  confidence: z.number().nullable(),
  width: z.number().nullable(),
  height: z.number().nullable(),
  duration: z.number().nullable(),
})
export const PagesAnswer = z.object({ pages: z.array(PageAnswer) })

/** Pages read by one query. */
const pageBatchSize = 50

type PageRow = Pick<Row<'document_pages'>, 'page' | 'text' | 'source' | 'confidence' | 'width' | 'height' | 'duration'>

/** Returns the response body with the pages of a document from page `from` on, in order. Long pages are streamed. */
export async function pagesResponse(app: App, id: string, { from, limit = Number.MAX_SAFE_INTEGER }: PageRange): Promise<object> {
  const last = from + limit - 1
  const first = await fetchPages(app, id, from - 1, last)
  const isAll = first.length < pageBatchSize && first.every((page) => typeof page.text === 'string')
  return isAll ? { pages: first } : streamedJson({ pages: streamPages(app, id, first, last) })
}

interface PageRange {
  /** number of the first page */
  from: number
  limit?: number | undefined
}

async function* streamPages(app: App, id: string, first: Awaited<ReturnType<typeof fetchPages>>, last: number) {
  for (let batch = first; ; batch = await fetchPages(app, id, batch.at(-1)?.page ?? 0, last)) {
    yield* batch
    if (batch.length < pageBatchSize) return
  }
}

async function fetchPages(app: App, id: string, after: number, last: number) {
  const { rows } = await sql<PageRow & { is_longer: boolean; row_version: string }>`
    select page, left(text, ${sql.lit(headLength)}) as text, source, confidence, width, height, duration,
      substr(text, ${sql.lit(headLength + 1)}, 1) <> '' as is_longer, xmin::text as row_version
    from document_pages where document_id = ${id} and page > ${after} and page <= ${last}::bigint order by page limit ${pageBatchSize}`.execute(
    app.database.texts,
  )
  return rows.map(({ is_longer, row_version, ...page }) => {
    const row = sql`document_pages where document_id = ${id} and page = ${page.page} and xmin::text = ${row_version}`
    return { ...page, text: is_longer ? new StreamedText(page.text, () => streamColumn(app, page.text, 'text', row)) : page.text }
  })
}
