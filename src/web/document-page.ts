import type { Client } from '../client/client.ts'
import { canShowInline } from '../http/files.ts'
import { dayElement, formatBytes, formatDate, formatDay, html, type Markup, nothing, typeName } from '../http/html.ts'
import { languageName } from '../ocr/languages.ts'
import { redirect } from './answers.ts'
import { documentText } from './document-text.ts'
import { documentState, layout, notice, pager, withParameters } from './layout.ts'
import { bestPage, findMatches, foundOn, mostTerms, readSearch, type Search } from './page-section.ts'
import { labelLink } from './search-page.ts'
import { undeleteForm } from './trash-page.ts'
import { versionList } from './version-list.ts'
import type { Visit } from './visit.ts'

/** Number of pages of the document on one web page. */
const pagesAtOnce = 20

type Document = Awaited<ReturnType<Client['documents']['get']>>

/** Returns a document: its preview, its facts, its text by page, and its versions. A search without a page redirects to the best page. */
export async function documentPage({ app, client, id, query, username }: Visit): Promise<string | Response> {
  const [document, versions] = await Promise.all([client.documents.get(id, { content: false }), client.documents.versions(id)])
  const isTrashed = document.deleted_at != null
  const path = `/documents/${id}`
  const search = readSearch(query)
  const matches = await findMatches(client, id, search)
  const bestPages = mostTerms(matches.pages)
  const pathOf = (part: number): string => withParameters(path, { page: part, ...search })
  const pathAt = (page: number): string => `${withParameters(path, { page: partOf(page), at: page, ...search })}#page-${page}`
  const pageCount = Math.max(1, document.page_count ?? 1)
  if (!query.has('page') && query.has('at')) return redirect(pathAt(numberIn(query, 'at', 1, pageCount)))
  const best = bestPage(matches.pages)
  if (best > 1 && !query.has('page')) return redirect(pathAt(best))
  const totalParts = partOf(pageCount)
  const part = numberIn(query, 'page', 1, totalParts)
  const first = (part - 1) * pagesAtOnce + 1
  const last = part * pagesAtOnce
  const at = numberIn(query, 'at', first, Math.min(last, pageCount))
  const isNumbered = pageCount > 1
  const content = html`<article class="document">
<header>
<h1>${document.title}</h1>
${stateAndLabels(document)}
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
${foundOn(bestPages, pathAt)}
${totalParts > 1 ? pageForm(path, at, pageCount, search) : nothing}
${await documentText(client, document, { first, last: Math.min(last, Math.max(first, pageCount)), at, isNumbered, pathOf: pathAt, search, matches })}
${pager(part, totalParts, pathOf)}
</section>
${versionList(id, versions, !isTrashed)}
</div>
</article>`
  return layout({ app, title: document.title, username, content, q: search.q })
}

/** Returns the integer of a parameter, moved into the range; `min` if it is missing or no number. */
const numberIn = (query: URLSearchParams, name: string, min: number, max: number): number =>
  Math.min(Math.max(min, Math.floor(Number(query.get(name)) || min)), max)

/** Returns the form that opens a page by its number. */
const pageForm = (path: string, at: number, pageCount: number, { q, fuzzy }: Search): Markup =>
  html`<form class="page-number" action="${path}">
<label>Page <input name="at" type="number" min="1" max="${pageCount}" value="${at}" required> of ${pageCount.toLocaleString('en')}</label>
${Object.entries({ q, fuzzy }).map(([name, value]) => (value === '' ? nothing : html`<input type="hidden" name="${name}" value="${value}">`))}<button>Go to page</button>
</form>`

const trashNotice = ({ id, deleted_at, purge_at }: Document): Markup => html`<div class="notice bad trashed" role="status">
<p>This document has been in the trash since ${formatDay(deleted_at ?? '')}${purge_at ? `, and is deleted for good after ${formatDay(purge_at)}` : ''}.</p>
<div class="actions">${undeleteForm(id, `/documents/${id}`, 'Restore')}<a class="button" href="/documents/${id}/delete">Delete for good</a></div>
</div>`

function restoredNotice(query: URLSearchParams, versions: readonly { number: number; sha256: string; current: boolean }[]): Markup {
  const current = versions.find(({ current }) => current)
  const restored = versions.find(({ number }) => String(number) === query.get('restored'))
  // The address may be old or forged.
  if (!current || !restored || restored === current || restored.sha256 !== current.sha256) return nothing
  return notice('good', `Version ${restored.number} is restored as version ${current.number}.`)
}

/** Returns the form that deletes a document. Without a trash, another page asks for a confirmation first. */
const deleteForm = (id: string, hasTrash: boolean): Markup =>
  hasTrash
    ? html`<form method="post" action="/documents/${id}/delete"><button class="plain danger">Move to trash</button></form>`
    : html`<p><a class="button plain danger" href="/documents/${id}/delete">Delete</a></p>`

/** Returns the state and the labels; nothing for a document that is ready and has no labels. */
function stateAndLabels({ status, labels }: Document): Markup {
  const state = documentState(status)
  return state.markup === '' && labels.length === 0
    ? nothing
    : html`<p class="facts">${state}${labels.map((label) => labelLink(label))}</p>`
}

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
