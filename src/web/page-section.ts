/** Sections of the page of a document: pages with picture and text, and the words of a search that were found on them. */
import type { Client } from '../client/client.ts'
import { html, type Markup, nothing } from '../http/html.ts'
import { notice, withParameters } from './layout.ts'

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

/** Returns the page with the most terms of the search; of equal ones, the first with the most matches. Returns 1 without matches. */
export function bestPage(pages: Matches['pages']): number {
  const sorted = pages.toSorted((one, other) => other.terms - one.terms || other.matches.length - one.matches.length)
  return sorted[0]?.page ?? 1
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
  /** whether the text is only the beginning of the text of the page */
  readonly isCut: boolean
  readonly hasPictures: boolean
  readonly search: Search
  /** places of the matches in the text */
  readonly spans: Spans
}

/** Returns a page: its number, its picture if it has a size, and its text. */
export const pageSection = (
  { id, title }: { id: string; title: string },
  page: Page,
  { isNumbered, isCut, hasPictures, search, spans }: SectionOptions,
): Markup => {
  const { page: number, text, source, confidence } = page
  const ocr =
    source === 'ocr' && confidence !== null ? html` <span class="quiet">OCR, ${Math.round(confidence * 100)} % sure</span>` : nothing
  return html`<section class="page" id="page-${number}">
${isNumbered ? html`<h3><a href="#page-${number}">Page ${number}</a>${ocr}</h3>` : nothing}
${hasPictures ? picture(`/documents/${id}/pages/${number}`, `Page ${number} of ${title}`, page, spans.length > 0 ? search : null) : nothing}
${isCut ? notice('quiet', html`The text is long. This is its beginning; <a href="/documents/${id}/text">the whole text</a> opens as a file.${matchesBeyond(spans, text.length)}`) : nothing}
${text.trim() === '' ? nothing : html`<pre dir="auto">${markText(text, spans)}</pre>`}
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

/** Matches of a page in an answer of the API at most. */
const maxMatches = 1_000

/** Returns a sentence about the matches after the shown beginning of a text. */
function matchesBeyond(spans: Spans, length: number): string {
  const count = spans.filter(({ end }) => end > length).length
  const isLimited = spans.length >= maxMatches
  if (count === 0) return isLimited ? ' The rest may contain more matches.' : ''
  return ` The rest contains ${isLimited ? 'at least ' : ''}${count.toLocaleString('en')} ${count === 1 ? 'match' : 'matches'}.`
}

/** Replaces form feeds by line breaks, and other control characters, which browsers hide, by their pictures. Keeps offsets. */
export const showControls = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  text.replace(/[\f\v\x85]/g, '\n').replace(/[\x00-\x08\x0e-\x1f\x7f-\x9f]/g, pictureOf)

/** First of the pictures of the control characters (Unicode block Control Pictures), and that of DEL. Those above have none. */
const [firstPicture, deletePicture] = [0x2400, '\u2421']

function pictureOf(control: string): string {
  const code = control.charCodeAt(0)
  if (code === 0x7f) return deletePicture
  return code < 0x20 ? String.fromCharCode(firstPicture + code) : '\ufffd'
}

function markText(original: string, spans: Spans): Markup {
  const text = showControls(original)
  const parts: Markup[] = []
  let offset = 0
  for (const { start, end } of spans) {
    // In scripts without spaces, matches can overlap.
    const from = Math.max(offset, start)
    if (end <= from || end > text.length) continue
    parts.push(html`${text.slice(offset, from)}<mark>${text.slice(from, end)}</mark>`)
    offset = end
  }
  return html`${parts}${text.slice(offset)}`
}
