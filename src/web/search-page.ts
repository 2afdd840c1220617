import type { z } from 'zod'
import { isCalendarDate } from '../calendar.ts'
import { type Client, ClientError } from '../client/client.ts'
import { dayElement, fileIcon, formatBytes, html, type Markup, markup, nothing, typeName } from '../http/html.ts'
import { isId } from '../id.ts'
import type { Filters } from '../search/routes.ts'
import { pageAnswer } from './answers.ts'
import { facet, typeNamesOf } from './facets.ts'
import { documentState, layout, notice, pager, withParameters } from './layout.ts'
import { showControls } from './page-section.ts'
import { documentCount, undeleteForm } from './trash-page.ts'
import type { Visit } from './visit.ts'

const perPage = 20
/** Labels of a document that lists show. */
const maxLabels = 20

interface Request {
  q: string
  types: string[]
  labels: string[]
  /** Year of the document date; '' for all. */
  year: string
  from: string
  to: string
  page: number
}

type Answer = Awaited<ReturnType<Client['search']['query']>>

/** What the page shows while the search engine is unavailable: no facets and no results. */
const noAnswer: Answer = {
  facets: { mime_types: {}, labels: {}, years: {} },
  warnings: ['Search is not available right now.'],
  results: [],
  total: 0,
  total_capped: false,
  took_ms: 0,
  pagination: { page: 1, per_page: perPage, total: 0, total_pages: 0, has_next: false, has_prev: false },
}

/** Returns the newest documents, or the results of a search with its facets; 404 for a page beyond those of a search. */
export async function searchPage({ app, client, query, username }: Visit): Promise<string | Response> {
  const request = readRequest(query)
  const { q } = request
  const isFiltered = [q.trim(), ...request.types, ...request.labels, request.year, request.from, request.to].some((value) => value !== '')
  const maxPage = Math.ceil(app.config.limits.search_max_results / perPage)
  if (isFiltered && request.page > maxPage) {
    const content = html`<div class="card empty"><h1>There is no such page</h1><p>Searches have at most ${maxPage} pages.</p><p><a class="button" href="${pathOf({ ...request, page: 1 })}">Page 1</a></p></div>`
    return pageAnswer(404, layout({ app, title: 'There is no such page', username, q, content }))
  }
  const answer = await findDocuments(client, request, isFiltered).catch((error) => {
    // The newest documents come from the database.
    if (isFiltered || !(error instanceof ClientError && error.code === 'SERVICE_UNAVAILABLE')) throw error
    return noAnswer
  })
  const recent = isFiltered ? null : await client.documents.page({ page: request.page, per_page: perPage, fields: listFields })
  const { total, total_pages } = recent?.pagination ?? answer.pagination
  const content = html`<div class="columns">
${facets(answer, request)}
<section aria-labelledby="results">
<h1 id="results">${isFiltered ? countOf(answer) : 'Documents'}</h1>
${await trashedNotice(client, query.get('trashed'))}
${filterForm(request)}
${chips(request)}
${request.from && request.to && request.from > request.to ? notice('quiet', 'The first day is after the last day, so no document can match.') : nothing}
${answer.warnings.map((warning) => notice('quiet', warning))}
${total === 0 ? empty(isFiltered) : html`<ol class="results">${recent ? recent.data.map(recentItem) : answer.results.map((result) => resultItem(result, { q, fuzzy: answer.relaxed ? 'true' : null }))}</ol>`}
${pager(request.page, total_pages, (page) => pathOf({ ...request, page }))}
</section>
</div>`
  const filters = html`${hiddenFilters(request)}${hiddenField('from', request.from)}${hiddenField('to', request.to)}`
  return layout({ app, title: q || 'Documents', username, path: isFiltered ? undefined : '/', q, filters, content })
}

/** Returns a notice about the document that was moved to the trash before this page, with a button to undo it. */
async function trashedNotice(client: Client, id: string | null): Promise<Markup> {
  if (id === null || !isId(id)) return nothing
  const { title, deleted_at } = await client.documents.get(id, { content: false }).catch(() => ({ title: '', deleted_at: null }))
  if (deleted_at == null) return nothing
  return html`<div class="notice good trashed" role="status"><p>“<bdi>${title}</bdi>” is in the <a href="/trash">trash</a>.</p>${undeleteForm(id, `/documents/${id}`, 'Undo')}</div>`
}

const listFields = 'id,title,filename,mime_type,size,status,labels,page_count,document_date,created_at'

function readRequest(query: URLSearchParams): Request {
  const page = Number(query.get('page') ?? 1)
  return {
    q: (query.get('q') ?? '').slice(0, 1000),
    types: distinct(query.getAll('type')),
    labels: distinct(query.getAll('label')),
    year: isCalendarDate(`${query.get('year')}-01-01`) ? query.get('year')! : '',
    from: dayOf(query.get('from')),
    to: dayOf(query.get('to')),
    page: Number.isInteger(page) && page >= 1 && page <= 1_000_000 ? page : 1,
  }
}

const distinct = (values: readonly string[]): string[] => [...new Set(values)].filter(Boolean)

const dayOf = (text: string | null): string => (text !== null && isCalendarDate(text) ? text : '')

const pathOf = ({ q, types, labels, year, from, to, page }: Request): string =>
  withParameters('/', { q, type: types, label: labels, year, from, to, page: page === 1 ? null : page })

/**
 * Searches for documents. Without words, finds all documents that pass the filters, the newest first. Without filters, the page uses only the facets.
 */
function findDocuments(client: Client, { q, types, labels, year, from, to, page }: Request, isFiltered: boolean): Promise<Answer> {
  const filters: z.input<typeof Filters> = {
    ...(types.length > 0 ? { mime_types: types } : {}),
    ...(labels.length > 0 ? { labels } : {}),
    ...(year ? { document_date: { from: `${year}-01-01`, to: `${year}-12-31` } } : {}),
    ...(from || to ? { date_range: { ...(from ? { from } : {}), ...(to ? { to } : {}) } } : {}),
  }
  if (q.trim() !== '') return client.search.query(q, { filters, relax: true, page, per_page: perPage })
  const size = isFiltered ? { page, per_page: perPage } : { per_page: 1 }
  return client.search.advanced({ filters, sort: [{ field: 'created_at', order: 'desc' }], highlight: false, ...size })
}

const countOf = ({ total, total_capped }: Answer): string => `${total_capped ? 'More than ' : ''}${documentCount(total)}`

const empty = (isFiltered: boolean): Markup =>
  isFiltered
    ? html`<div class="empty card"><h2>Nothing matches</h2><p>Try fewer or other words, or remove a filter. Words match in every form of their stem; <kbd>"a phrase"</kbd>, <kbd>-not</kbd>, <kbd>one OR other</kbd> and <kbd>title:word</kbd> work too.</p></div>`
    : html`<div class="empty card"><h2>No documents yet</h2><p>Drop files on this page, or choose them.</p><p><a class="button strong" href="/upload">Upload documents</a></p></div>`

const hiddenField = (name: string, value: string): Markup =>
  value === '' ? nothing : html`<input type="hidden" name="${name}" value="${value}">`

/** Returns hidden fields for all filters but the date of arrival. */
const hiddenFilters = ({ types, labels, year }: Request): Markup =>
  html`${types.map((type) => hiddenField('type', type))}${labels.map((label) => hiddenField('label', label))}${hiddenField('year', year)}`

const filterForm = (request: Request): Markup => {
  const { q, from, to } = request
  return html`<details class="dates"${markup(from || to ? ' open' : '')}>
<summary>Date of arrival</summary>
<form action="/">
${hiddenField('q', q)}${hiddenFilters(request)}
<label>From <input type="date" name="from" value="${from}"></label>
<label>To <input type="date" name="to" value="${to}"></label>
<button class="plain">Apply</button>
</form>
</details>`
}

/** Returns the path of the same search with other filters, from its first page. */
const pathWith = (request: Request, filters: Partial<Request>): string => pathOf({ ...request, ...filters, page: 1 })

function chips(request: Request): Markup {
  const { types, labels, year, from, to } = request
  const removals = [
    ...types.map((type) => ({ text: typeName(type), path: pathWith(request, { types: types.filter((one) => one !== type) }) })),
    ...labels.map((label) => ({ text: label, path: pathWith(request, { labels: labels.filter((one) => one !== label) }) })),
    ...(year ? [{ text: year, path: pathWith(request, { year: '' }) }] : []),
    ...(from || to ? [{ text: `${from || '…'} to ${to || '…'}`, path: pathWith(request, { from: '', to: '' }) }] : []),
  ]
  if (removals.length === 0) return nothing
  return html`<ul class="chips" aria-label="Filters in use">${removals.map(({ text, path }) => html`<li><a href="${path}"><span class="hidden">Remove filter </span>${text}<span aria-hidden="true"> ×</span></a></li>`)}</ul>`
}

function facets({ facets: { mime_types, labels, years }, total_capped: isCapped }: Answer, request: Request): Markup {
  const groups = [
    facet('Type', {
      counts: mime_types,
      isCapped,
      chosen: request.types,
      nameOf: typeNamesOf(Object.keys(mime_types)),
      pathWith: (types) => pathWith(request, { types }),
    }),
    facet('Label', { counts: labels, isCapped, chosen: request.labels, pathWith: (names) => pathWith(request, { labels: names }) }),
    facet('Year', {
      counts: years,
      isCapped,
      chosen: request.year ? [request.year] : [],
      pathWith: (chosen) => pathWith(request, { year: chosen.at(-1) ?? '' }),
      compare: ([one], [other]) => Number(other) - Number(one),
    }),
  ].filter(({ markup }) => markup !== '')
  return groups.length === 0 ? nothing : html`<aside aria-label="Filters">${groups}</aside>`
}

/** Returns the document date, else the day of arrival with its name: the facet counts document dates only. */
const dateOf = (documentDate: string | null, createdAt: string): Markup =>
  documentDate === null ? html`<span>Added ${dayElement(createdAt)}</span>` : dayElement(documentDate)

/** `search`: parameters of the link, so that the page of the document marks the words of the query. */
const resultItem = (result: Answer['results'][number], search: { q: string; fuzzy: string | null }): Markup => {
  const { document_id, title, filename, mime_type, status, labels, document_date, created_at, highlights } = result
  const of = (field: string): Markup[] => highlights.filter((one) => one.field === field).map(({ snippet }) => marked(snippet))
  return html`<li><article>${fileIcon(filename)}<div>
<h2><a href="${withParameters(`/documents/${document_id}`, search)}">${of('title')[0] ?? title}</a></h2>
${of('content').map((snippet) => html`<p class="snippet" dir="auto">${snippet}</p>`)}
<p class="facts">${documentState(status)}<span class="filename">${of('filename')[0] ?? filename}</span><span>${typeName(mime_type)}</span>${dateOf(document_date, created_at)}${labelLinks(labels, of('labels'))}</p>
</div></article></li>`
}

const recentItem = (document: Awaited<ReturnType<Client['documents']['get']>>): Markup => {
  const { id, title, filename, mime_type, size, status, labels, page_count, document_date, created_at } = document
  return html`<li><article>${fileIcon(filename)}<div>
<h2><a href="/documents/${id}">${title}</a></h2>
<p class="facts">${documentState(status)}<span>${typeName(mime_type)}</span><span>${formatBytes(size)}</span>${page_count !== null && page_count > 1 ? html`<span>${page_count} pages</span>` : nothing}${dateOf(document_date, created_at)}${labelLinks(labels)}</p>
</div></article></li>`
}

/** Returns the labels of a document in a list, those with marks first. */
function labelLinks(labels: readonly string[], marked: readonly Markup[] = []): Markup {
  const names = new Map(marked.map((name) => [name.markup.replace(/<\/?mark>/g, ''), name]))
  const nameOf = (label: string) => names.get(html`${label}`.markup)
  const sorted = labels.toSorted((one, other) => Number(nameOf(one) === undefined) - Number(nameOf(other) === undefined))
  const rest = labels.length - maxLabels
  return html`${sorted.slice(0, maxLabels).map((label) => labelLink(label, nameOf(label)))}${rest > 0 ? html`<span>and ${rest.toLocaleString('en')} more</span>` : nothing}`
}

/** Returns a label as a link to its documents. `name`: the label with marks. */
export const labelLink = (label: string, name: Markup = html`${label}`): Markup =>
  html`<a class="label" href="${withParameters('/', { label })}">${name}</a>`

/** Returns a snippet of the search as markup. Escapes every tag except <mark>, even if an engine returned others. */
const marked = (snippet: string): Markup =>
  markup(
    showControls(snippet)
      .replace(/<(?!\/?mark>)/g, '&lt;')
      .replaceAll('"', '&quot;'),
  )
