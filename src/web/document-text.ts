/** The text of a document on its web page: the pages that fit, with pictures and the words of a search. */
import type { Client } from '../client/client.ts'
import { readError } from '../client/http/connection.ts'
import { html, type Markup, nothing } from '../http/html.ts'
import { readAtMost, readEnds } from './answers.ts'
import { notice, withParameters } from './layout.ts'
import { type Found, findMatches, pageSection, showControls } from './page-section.ts'

/** Bytes of text shown at most; the rest can be downloaded. */
const maxTextBytes = 500_000

type Document = Awaited<ReturnType<Client['documents']['get']>>
type Page = Awaited<ReturnType<Client['documents']['pages']>>[number]

export interface TextOptions extends Found {
  readonly first: number
  readonly last: number
  /** page that is shown in any case */
  readonly at: number
  /** whether headings name the pages */
  readonly isNumbered: boolean
  /** address that shows a page */
  pathOf(page: number): string
}

/** Returns the text of some pages, as many as fit, with links to those before and after. */
export async function documentText(client: Client, document: Document, options: TextOptions): Promise<Markup> {
  const { at, isNumbered, pathOf, search, matches } = options
  const { id, status, error } = document
  const { first, last } = options
  let batch = await loadPages(client, id, first, last)
  if (batch.last < at) batch = await loadPages(client, id, at, Math.min(last, at + batch.last - batch.first))
  const hasPictures = error === null
  const filled = batch.pages.filter(({ text, width }) => text.trim() !== '' || (hasPictures && width !== null))
  if (batch.pages.length === 0 && first === 1 && document.status === 'completed') return beginning(client, id)
  if (filled.length === 0 && batch.first === first && batch.last === last)
    return html`<p class="quiet">${status === 'pending' || status === 'processing' ? 'The text appears here when the document has been read.' : noText}</p>`
  // The first matches of a long document may all be on earlier pages.
  const isCovered = matches.next === null || matches.next > batch.last
  const shown = isCovered ? matches : await findMatches(client, id, search, { from: batch.first, limit: batch.last - batch.first + 1 })
  const spans = new Map(shown.pages.map(({ page, matches }) => [page, matches]))
  const link = (page: number, text: string): Markup =>
    notice('quiet', html`The text of these pages is long. <a href="${pathOf(page)}">${text}</a>`)
  return html`${batch.first > first ? link(first, `Back to page ${first}`) : nothing}
${filled.map((page) => pageSection(document, page, { isNumbered, isCut: batch.isCut, hasPictures, search, spans: spans.get(page.page) ?? [] }))}
${batch.last < last ? link(batch.last + 1, `Continue with page ${batch.last + 1}`) : nothing}`
}

const noText = 'No text was found in this document.'

interface Batch {
  readonly pages: readonly Page[]
  readonly first: number
  readonly last: number
  /** whether the text of the only page is incomplete */
  readonly isCut: boolean
}

/** Loads pages from `first` on, up to `last` or as many as fit. The text of one page that does not fit is cut. */
async function loadPages(client: Client, id: string, first: number, last: number): Promise<Batch> {
  for (let limit = last - first + 1; ; limit = Math.floor(limit / 2)) {
    const response = await client.send('GET', withParameters(`/api/documents/${id}/pages`, { from: first, limit }))
    if (!response.ok) throw await readError(response)
    // Only the end of a single page is needed. Longer answers are cancelled.
    if (limit > 1) {
      const { text, isWhole } = await readAtMost(response, maxTextBytes)
      if (isWhole) return { ...(JSON.parse(text) as { pages: Page[] }), first, last: first + limit - 1, isCut: false }
      continue
    }
    const { head, tail } = await readEnds(response, maxTextBytes)
    if (tail !== null) return { pages: [parseCutPage(head, tail)], first, last: first, isCut: true }
    return { ...(JSON.parse(head) as { pages: Page[] }), first, last: first, isCut: false }
  }
}

const textStart = '"text":"'
const textEnd = '","source":'

/** Parses the beginning and the end of an answer with one page. Texts in JSON contain no quote without a backslash. */
function parseCutPage(head: string, tail: string): Page {
  const from = head.indexOf(textStart)
  const to = tail.lastIndexOf(textEnd)
  const { pages } = JSON.parse(head.slice(0, from + textStart.length) + tail.slice(to)) as { pages: [Page] }
  return { ...pages[0], text: parseCutString(head.slice(from + textStart.length)) }
}

/** Parses the beginning of a JSON string, which may end inside an escape sequence of up to six characters. */
function parseCutString(text: string): string {
  for (let end = text.length; end > text.length - 6; end--) {
    try {
      return JSON.parse(`"${text.slice(0, end)}"`) as string
    } catch {
      // The end is inside an escape sequence.
    }
  }
  return ''
}

/** Returns the text of a document without pages. */
async function beginning(client: Client, id: string): Promise<Markup> {
  const response = await client.send('GET', `/api/documents/${id}/text`)
  if (!response.ok) throw await readError(response)
  const { text, isWhole } = await readAtMost(response, maxTextBytes)
  if (text.trim() === '') return html`<p class="quiet">${noText}</p>`
  const long = html`The text is long. This is its beginning; <a href="/documents/${id}/text">the whole text</a> opens as a file.`
  return html`${isWhole ? nothing : notice('quiet', long)}<pre dir="auto">${showControls(text)}</pre>`
}
