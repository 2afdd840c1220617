import type { Client } from '../client/client.ts'
import { readError } from '../client/http/connection.ts'
import { canShowInline } from '../http/files.ts'
import { dayElement, formatBytes, formatDate, formatDay, html, type Markup, nothing, typeName } from '../http/html.ts'
import { languageName } from '../ocr/languages.ts'
import { readAtMost } from './answers.ts'
import { layout, notice, pager, stateBadge, withParameters } from './layout.ts'
import { type Found, findMatches, foundOn, mostTerms, pageSection, readSearch } from './page-section.ts'
import { labelLink } from './search-page.ts'
import { undeleteForm } from './trash-page.ts'
import { versionList } from './version-list.ts'
import type { Visit } from './visit.ts'

/** Number of pages of the document on one web page. */
const pagesAtOnce = 20
/** Bytes of text shown at most; the rest can be downloaded. */
const maxTextBytes = 500_000

type Document = Awaited<ReturnType<Client['documents']['get']>>
type Page = Awaited<ReturnType<Client['documents']['pages']>>[number]

/** Returns a document: its preview, its facts, its text by page, and its versions. */
export async function documentPage({ app, client, id, query, username }: Visit): Promise<string> {
  const [document, versions] = await Promise.all([client.documents.get(id, { content: false }), client.documents.versions(id)])
  const isTrashed = document.deleted_at != null
  const path = `/documents/${id}`
  const search = readSearch(query)
  const matches = await findMatches(client, id, search)
  const bestPages = mostTerms(matches.pages)
  const totalParts = Math.max(1, Math.ceil((document.page_count ?? 1) / pagesAtOnce))
  const requested = Math.floor(Number(query.get('page')) || partOf(bestPages[0] ?? 1))
  const part = Math.min(Math.max(1, requested), totalParts)
  const pathOf = (part: number): string => withParameters(path, { page: part, ...search })
  const content = html`<article class="document">
<header>
<h1>${document.title}</h1>
<p class="facts">${document.status === 'completed' ? nothing : stateBadge(document.status)}${document.labels.map(labelLink)}</p>
</header>
${isTrashed ? trashNotice(document) : restoredNotice(query, versions)}
<div class="side">
<a class="preview" href="${path}/${canShowInline(document.mime_type) ? 'view' : 'download'}"><img src="${path}/thumbnail?width=640&height=900" alt="First page of ${document.title}" decoding="async"></a>
<p class="actions">${canShowInline(document.mime_type) ? html`<a class="button strong" href="${path}/view" target="_blank" rel="noopener">Open<span class="hidden"> in a new tab</span></a>` : nothing}<a class="button" href="${path}/download" download>Download</a></p>
${facts(document, app.now())}
${isTrashed ? nothing : deleteForm(id, app.config.documents.trash_days > 0)}
</div>
<div class="text">
<section aria-labelledby="text">
<h2 id="text">Text</h2>
${document.error ? notice('bad', `This document could not be read: ${document.error.message}`) : nothing}
${document.warnings.map(({ message }) => notice('quiet', message))}
${foundOn(bestPages, (page) => `${pathOf(partOf(page))}#page-${page}`)}
${await text(client, document, part, { search, matches })}
${pager(part, totalParts, pathOf)}
</section>
${versionList(id, versions, !isTrashed)}
</div>
</article>`
  return layout({ title: document.title, username, content, q: search.q })
}

const trashNotice = ({ id, deleted_at, purge_at }: Document): Markup => html`<div class="notice bad trashed" role="status">
<p>This document is in the trash since ${formatDay(deleted_at ?? '')}${purge_at ? `, and is deleted for good after ${formatDay(purge_at)}` : ''}.</p>
<div class="actions">${undeleteForm(id, `/documents/${id}`, 'Restore')}<a class="button" href="/documents/${id}/delete">Delete for good</a></div>
</div>`

function restoredNotice(query: URLSearchParams, versions: readonly { number: number; current: boolean }[]): Markup {
  const restored = versions.find(({ number }) => String(number) === query.get('restored'))
  if (!restored) return nothing
  return notice('good', `Version ${restored.number} is restored as version ${versions.find(({ current }) => current)?.number ?? ''}.`)
}

/** Returns the form that deletes a document. Without a trash, another page asks for a confirmation first. */
const deleteForm = (id: string, hasTrash: boolean): Markup =>
  hasTrash
    ? html`<form method="post" action="/documents/${id}/delete"><button class="plain danger">Move to trash</button></form>`
    : html`<p><a class="button plain danger" href="/documents/${id}/delete">Delete</a></p>`

function facts(document: Document, now: Date): Markup {
  const { page_count, document_date, created_at, ocr_confidence, retain_until } = document
  const rows: [string, string | Markup | null][] = [
    ['File', document.filename],
    ['Type', `${typeName(document.mime_type)}, ${formatBytes(document.size)}`],
    ['Pages', page_count === null || page_count < 2 ? null : page_count.toLocaleString('en')],
    ['Date', document_date === null ? null : dayElement(document_date)],
    ['Added', html`<time datetime="${created_at}">${formatDate(new Date(created_at))}</time>`],
    ['Owner', document.owner],
    ['Kept until', retain_until !== null && Date.parse(retain_until) > now.getTime() ? dayElement(retain_until) : null],
    ['Source', document.source_path],
    ['Language', languageNames(document.detected_languages)],
    ['OCR', ocr_confidence === null ? null : `${Math.round(ocr_confidence * 100)} % sure`],
    ['SHA-256', html`<code>${document.sha256}</code>`],
  ]
  return html`<dl>${rows.flatMap(([name, value]) => (value === null ? [] : [html`<div><dt>${name}</dt><dd>${value}</dd></div>`]))}</dl>`
}

const languageNames = (codes: readonly string[]): string | null => codes.map(languageName).join(', ') || null

const partOf = (page: number): number => Math.ceil(page / pagesAtOnce)

async function text(client: Client, document: Document, part: number, { search, matches }: Found): Promise<Markup> {
  const { id, status } = document
  const from = (part - 1) * pagesAtOnce + 1
  const response = await client.send('GET', withParameters(`/api/documents/${id}/pages`, { from, limit: pagesAtOnce }))
  if (!response.ok) throw await readError(response)
  const json = await readAtMost(response, maxTextBytes)
  if (json.isWhole) {
    const { pages } = JSON.parse(json.text) as { pages: Page[] }
    const hasPictures = document.error === null
    const filled = pages.filter(({ text, width }) => text.trim() !== '' || (hasPictures && width !== null))
    if (filled.length === 0)
      return html`<p class="quiet">${status === 'pending' || status === 'processing' ? 'The text appears here when the document has been read.' : 'No text was found in this document.'}</p>`
    // The first matches of a long document may all be on earlier pages.
    const isCovered = matches.next === null || matches.next >= from + pagesAtOnce
    const shown = isCovered ? matches : await findMatches(client, id, search, { from, limit: pagesAtOnce })
    const spans = new Map(shown.pages.map(({ page, matches }) => [page, matches]))
    const isNumbered = pages.length > 1 || part > 1
    return html`${filled.map((page) => pageSection(document, page, { isNumbered, hasPictures, search, spans: spans.get(page.page) ?? [] }))}`
  }
  const whole = await client.send('GET', `/api/documents/${id}/text`)
  if (!whole.ok) throw await readError(whole)
  const head = await readAtMost(whole, maxTextBytes)
  return html`${notice('quiet', html`The text is long. This is its beginning; <a href="/documents/${id}/text">the whole text</a> opens as a file.`)}<pre>${head.text}</pre>`
}
