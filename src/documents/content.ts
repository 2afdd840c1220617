/** The text of documents, which may be megabytes: what a row does not carry is read in pieces, on a connection of its own. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import type { Row } from '../db/schema.ts'
import { StreamedAnswer, StreamedText, streamedJson } from '../http/streamed-json.ts'
import { type Document, type DocumentView, headLength, view } from './view.ts'

/** Bytes: PostgreSQL unpacks the whole text for each piece, 30 ms for 20 million characters. */
const pieceBytes = 2 << 20

/** What follows `document.content`, in UTF-8. Throws where the text is replaced or deleted meanwhile: the rest of it is that of another text. */
const restOf = (app: App, { id, content, processed_at }: Document): AsyncGenerator<Uint8Array> =>
  piecesAfter(
    app,
    content,
    (piece) =>
      sql<{ piece: Buffer }>`
      select ${piece(sql.ref('content'))} as piece from documents
      where id = ${id} and date_trunc('milliseconds', processed_at) is not distinct from ${processed_at}::timestamptz`,
  )

/** By bytes, because to count characters takes PostgreSQL ten times as long. */
type Piece = (column: RawBuilder<unknown>) => RawBuilder<unknown>

async function* piecesAfter(app: App, head: string, select: (piece: Piece) => RawBuilder<{ piece: Buffer }>): AsyncGenerator<Uint8Array> {
  for (let from = Buffer.byteLength(head); ; from += pieceBytes) {
    const cut: Piece = (column) => sql`substring(convert_to(${column}, 'UTF8') from ${from + 1}::int for ${pieceBytes}::int)`
    const { rows } = await select(cut).execute(app.database.texts)
    if (!rows[0]) throw new Error('the text was replaced while it was sent')
    const { piece } = rows[0]
    if (piece.length > 0) yield piece
    if (piece.length < pieceBytes) return
  }
}

/** The API's form of a document with its whole text. */
export function whole(app: App, document: Document): Omit<DocumentView, 'content'> & { content?: string | StreamedText } {
  const { content_truncated, ...shown } = view(document)
  return content_truncated ? { ...shown, content: new StreamedText(document.content, () => restOf(app, document)) } : shown
}

/** The same as an answer; one that is streamed where it is long. */
export const wholeAnswer = (app: App, document: Document): object =>
  document.content_truncated ? streamedJson(whole(app, document)) : view(document)

/** The text alone, as an answer. */
export const textAnswer = (app: App, document: Document, headers: Readonly<Record<string, string>>): Response | StreamedAnswer =>
  document.content_truncated ? new StreamedAnswer(textOf(app, document), headers) : new Response(document.content, { headers })

async function* textOf(app: App, document: Document): AsyncGenerator<string | Uint8Array> {
  yield document.content
  yield* restOf(app, document)
}

/** Pages that are read at once. */
const pagesAtOnce = 50

type PageRow = Pick<Row<'document_pages'>, 'page' | 'text' | 'source' | 'confidence' | 'width' | 'height' | 'duration'>

/** The pages of a document as they stand, in order; a page whose text is long has it streamed. */
export async function pagesAnswer(app: App, id: string): Promise<object> {
  const first = await pagesAfter(app, id, 0)
  const isAll = first.length < pagesAtOnce && first.every((page) => typeof page.text === 'string')
  return isAll ? { pages: first } : streamedJson({ pages: allPages(app, id, first) })
}

async function* allPages(app: App, id: string, first: Awaited<ReturnType<typeof pagesAfter>>) {
  for (let some = first; ; some = await pagesAfter(app, id, some.at(-1)?.page ?? 0)) {
    yield* some
    if (some.length < pagesAtOnce) return
  }
}

async function pagesAfter(app: App, id: string, after: number) {
  const { rows } = await sql<PageRow & { is_longer: boolean; row_version: string }>`
    select page, left(text, ${sql.lit(headLength)}) as text, source, confidence, width, height, duration,
      substr(text, ${sql.lit(headLength + 1)}, 1) <> '' as is_longer, xmin::text as row_version
    from document_pages where document_id = ${id} and page > ${after} order by page limit ${pagesAtOnce}`.execute(app.database.texts)
  return rows.map(({ is_longer, row_version, ...page }) => {
    const rest = () =>
      piecesAfter(
        app,
        page.text,
        (piece) =>
          sql<{ piece: Buffer }>`
          select ${piece(sql.ref('text'))} as piece from document_pages
          where document_id = ${id} and page = ${page.page} and xmin::text = ${row_version}`,
      )
    return { ...page, text: is_longer ? new StreamedText(page.text, rest) : page.text }
  })
}
