/** Sections of the page of a document: pages with picture and text, and the words of a search that were found on them. */
import type { Client } from '../client/client.ts'
import { html, type Markup, nothing } from '../http/html.ts'
import { withParameters } from './layout.ts'

/** Links to pages with matches. */
const maxLinks = 12

/** Search from which the document was opened. */
export interface Search {
  readonly q: string
  /** `true`: with typos; '' without */
  readonly fuzzy: 'true' | ''
}

type Matches = Awaited<ReturnType<Client['search']['matches']>>
type Spans = Matches['pages'][number]['matches']

export interface Found {
  readonly search: Search
  readonly matches: Matches
}

export const readSearch = (query: URLSearchParams): Search => ({
  q: (query.get('q') ?? '').slice(0, 1000),
  fuzzy: query.get('fuzzy') === 'true' ? 'true' : '',
})

/** Returns the pages of a document that have words of the search; none without a search. */
export const findMatches = async (
  client: Client,
  id: string,
  { q, fuzzy }: Search,
  range: { from?: number; limit?: number; boxes?: boolean } = {},
): Promise<Matches> => (q.trim() === '' ? { pages: [], next: null } : client.search.matches(id, { q, fuzzy: fuzzy === 'true', ...range }))

/** Returns the numbers of the pages with the most terms of the search. */
export function mostTerms(pages: Matches['pages']): number[] {
  const most = Math.max(0, ...pages.map(({ terms }) => terms))
  return pages.filter(({ terms }) => terms === most).map(({ page }) => page)
}

/** Returns links to pages with matches; nothing for a document of one page. */
export function foundOn(pages: readonly number[], pathOf: (page: number) => string): Markup {
  if (pages.length === 0 || (pages.length === 1 && pages[0] === 1)) return nothing
  const links = pages.slice(0, maxLinks).map((page) => html`<li><a href="${pathOf(page)}">Page ${page.toLocaleString('en')}</a></li>`)
  const rest = pages.length > maxLinks ? html`<li>and ${pages.length - maxLinks} more</li>` : nothing
  return html`<nav aria-label="Pages with matches"><ul class="chips">${links}${rest}</ul></nav>`
}

type Page = Awaited<ReturnType<Client['documents']['pages']>>[number]

interface SectionOptions {
  readonly isNumbered: boolean
  readonly hasPictures: boolean
  readonly search: Search
  /** places of the matches in the text */
  readonly spans: Spans
}

/** Returns a page: its number, its picture if it has a size, and its text. */
export const pageSection = (
  { id, title }: { id: string; title: string },
  page: Page,
  { isNumbered, hasPictures, search, spans }: SectionOptions,
): Markup => {
  const { page: number, text, source, confidence } = page
  const ocr =
    source === 'ocr' && confidence !== null ? html` <span class="quiet">OCR, ${Math.round(confidence * 100)} % sure</span>` : nothing
  return html`<section class="page" id="page-${number}">
${isNumbered ? html`<h3><a href="#page-${number}">Page ${number}</a>${ocr}</h3>` : nothing}
${hasPictures ? picture(`/documents/${id}/pages/${number}`, `Page ${number} of ${title}`, page, spans.length > 0 ? search : null) : nothing}
${text.trim() === '' ? nothing : html`<pre>${markText(text, spans)}</pre>`}
</section>`
}

/** Returns the picture of a page as a link to the larger picture. The marks of a search are a second picture above it. */
function picture(path: string, name: string, { width, height }: Page, search: Search | null): Markup {
  if (width === null || height === null || !(width > 0 && height > 0)) return nothing
  const small = withParameters(`${path}/image`, { width: 1000 })
  const large = withParameters(`${path}/image`, { width: 2000 })
  // The attributes reserve the space while the picture loads.
  const size = html`width="1000" height="${Math.max(1, Math.round((1000 * height) / width))}"`
  return html`<a class="picture" href="${large}"><img src="${small}" srcset="${small} 1000w, ${large} 2000w" sizes="(max-width: 46rem) 100vw, 48rem" ${size} alt="${name}" loading="lazy" decoding="async">${
    search
      ? html`<img class="marks" src="${withParameters(`${path}/marks`, { ...search })}" alt="" loading="lazy" decoding="async">`
      : nothing
  }</a>`
}

function markText(text: string, spans: Spans): Markup {
  const parts: Markup[] = []
  let offset = 0
  for (const { start, end } of spans) {
    // In scripts without spaces, matches can overlap.
    const from = Math.max(offset, start)
    if (end <= from) continue
    parts.push(html`${text.slice(offset, from)}<mark>${text.slice(from, end)}</mark>`)
    offset = end
  }
  return html`${parts}${text.slice(offset)}`
}
