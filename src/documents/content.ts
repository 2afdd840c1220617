/** Answers with whole texts. The part of a text that was not read with its document is streamed in chunks over a separate connection. */
import { type RawBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { Row } from '../db/schema.ts'
import { booleanText, integerText } from '../http/input.ts'
import { StreamedAnswer, StreamedText, streamedJson } from '../http/json/stream.ts'
import type { WordRow } from '../ports/document-reader.ts'
import { pagesWithDocuments, pageText } from './extraction/page-text.ts'
import { toWord, WordAnswer } from './extraction/page-words.ts'
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
  document.content_truncated
    ? new StreamedAnswer(withHead(document.content, streamRest(app, document)), headers)
    : new Response(document.content, { headers })

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
  return new StreamedAnswer(withHead(head, streamColumn(app, head, 'content', row)), headers)
}

async function* withHead(head: string, rest: AsyncGenerator<Uint8Array>): AsyncGenerator<string | Uint8Array> {
  yield head
  yield* rest
}

export const PagesQuery = z.object({
  from: integerText(1, 1_000_000).default(1).describe('Number of the first page.'),
  limit: integerText(1, 1_000_000).optional().describe('Number of pages. Default: all.'),
  boxes: booleanText.default(false).describe('Adds the words that OCR found, with their places on the page.'),
})
const PageAnswer = z.object({
  page: z.int(),
  text: z.string(),
  source: z.enum(['text_layer', 'ocr', 'empty']).nullable(),
  confidence: z.number().nullable(),
  width: z.number().nullable(),
  height: z.number().nullable(),
  duration: z.number().nullable(),
  language: z
    .string()
    .nullable()
    .describe('OCR codes joined by `+`; `und`: letters that no OCR model reads, perhaps with `-` and their script.'),
  angle: z.number().optional().describe('Degrees by which the lines are turned clockwise. With `boxes`.'),
  words: z.array(WordAnswer).optional().describe('In reading order. With `boxes`; empty without OCR.'),
})
export const PagesAnswer = z.object({ pages: z.array(PageAnswer) })

/** Pages read by one query, and with the boxes of their words. */
const pageBatchSize = 50
const boxesBatchSize = 10

type PageRow = Pick<Row<'document_pages'>, 'page' | 'source' | 'confidence' | 'width' | 'height' | 'duration' | 'language'> & {
  text: string
}

/** Returns the response body with the pages of a document from page `from` on, in order. Long pages and boxes are streamed. */
export async function pagesResponse(app: App, id: string, { from, limit = Number.MAX_SAFE_INTEGER, boxes }: PageRange): Promise<object> {
  const range = { last: from + limit - 1, boxes, size: boxes ? boxesBatchSize : pageBatchSize }
  const first = await fetchPages(app, id, from - 1, range)
  const isAll = !boxes && first.length < range.size && first.every((page) => typeof page.text === 'string')
  return isAll ? { pages: first } : streamedJson({ pages: streamPages(app, id, first, range) })
}

interface PageRange {
  /** number of the first page */
  from: number
  limit?: number | undefined
  boxes: boolean
}

interface Batches {
  /** number of the last page */
  last: number
  boxes: boolean
  /** pages of a batch */
  size: number
}

async function* streamPages(app: App, id: string, first: Awaited<ReturnType<typeof fetchPages>>, range: Batches) {
  for (let batch = first; ; batch = await fetchPages(app, id, batch.at(-1)?.page ?? 0, range)) {
    yield* batch
    if (batch.length < range.size) return
  }
}

async function fetchPages(app: App, id: string, after: number, { last, boxes, size }: Batches) {
  const columns = boxes ? sql`, coalesce(words.angle, 0) as angle, coalesce(words.words, '[]') as words` : sql``
  const joined = boxes
    ? sql`left join page_words words
        on words.document_id = page.document_id and words.number = document.current_version and words.page = page.page`
    : sql``
  const { rows } = await sql<PageRow & { is_longer: boolean; row_version: string; words?: WordRow[]; angle?: number }>`
    select page.page, left(${pageText}, ${sql.lit(headLength)}) as text, source, confidence, width, height, duration, page.language,
      substr(${pageText}, ${sql.lit(headLength + 1)}, 1) <> '' as is_longer, page.xmin::text as row_version ${columns}
    from ${pagesWithDocuments} ${joined}
    where page.document_id = ${id} and page.page > ${after} and page.page <= ${last}::bigint order by page.page limit ${size}`.execute(
    app.database.texts,
  )
  return rows.map(({ is_longer, row_version, words, ...page }) => {
    const row = sql`
      (select ${pageText} as text from ${pagesWithDocuments}
      where page.document_id = ${id} and page.page = ${page.page} and page.xmin::text = ${row_version}) page`
    const text = is_longer ? new StreamedText(page.text, () => streamColumn(app, page.text, 'text', row)) : page.text
    return { ...page, text, ...(words && { words: words.map(toWord) }) }
  })
}
