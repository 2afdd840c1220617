/** Frame of all pages: head, navigation and search field. */
import type { App } from '../app.ts'
import { html, htmlDocument, type Markup, markup, nothing } from '../http/html.ts'
import { loadAssets } from './assets.ts'

/** Loaded once for all servers of this process; the files never change. */
export const assets = loadAssets()

interface Frame {
  app: App
  title: string
  content: Markup
  /** User of the session; without one there is no navigation. */
  username?: string | undefined
  /** Path of the page in the navigation. */
  path?: string
  /** Text in the search field. */
  q?: string
  /** Hidden fields of the search: its filters. */
  filters?: Markup
}

const navigation = [
  ['/', 'Documents'],
  ['/upload', 'Upload'],
  ['/queue', 'Queue'],
  ['/trash', 'Trash'],
] as const

/** Returns a page. */
export const layout = ({ app, title, content, username, path, q = '', filters = nothing }: Frame): string =>
  htmlDocument(
    `${title} · dms`,
    html`<meta name="color-scheme" content="light dark">
<link rel="icon" href="${assets.paths.icon}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.paths.style}">
<script src="${assets.paths.script}" defer></script>`,
    html`${username === undefined ? nothing : header(username, path, q, filters)}
<main id="main" tabindex="-1" data-max-bytes="${app.config.limits.max_upload_size}">
${content}
</main>`,
    username === undefined ? 'bare' : undefined,
  )

const header = (
  username: string,
  path: string | undefined,
  q: string,
  filters: Markup,
): Markup => html`<a class="skip" href="#main">Skip to content</a>
<header>
<a class="brand" href="/"><img src="${assets.paths.icon}" alt="" width="26" height="26">dms</a>
<form class="search" role="search" action="/">
<label class="hidden" for="q">Search documents</label>
<input id="q" name="q" type="search" dir="auto" value="${q}" placeholder="Search documents" maxlength="1000" autocomplete="off" aria-keyshortcuts="Control+K Meta+K">${filters}
<button>Search</button>
</form>
<nav aria-label="Main">${navigation.map(([href, name]) => html`<a href="${href}"${current(href === path)}>${name}</a>`)}</nav>
<form class="account" method="post" action="/sign-out"><span title="Signed in as ${username}">${username}</span><button class="plain">Sign out</button></form>
</header>`

/** Returns the attribute `aria-current` for the current link. */
const current = (isCurrent: boolean): Markup => markup(isCurrent ? ' aria-current="page"' : '')

/** Returns a short notice; `kind` bad is announced at once. */
export const notice = (kind: 'good' | 'bad' | 'quiet', content: string | Markup): Markup =>
  html`<p class="notice ${kind}" role="${kind === 'bad' ? 'alert' : 'status'}">${content}</p>`

/** Returns links to the pages before and after; `pathOf` returns the path of a page. A page past the end, which became empty, links to the last one. */
export function pager(page: number, totalPages: number, pathOf: (page: number) => string): Markup {
  if (totalPages === 0 || (totalPages === 1 && page === 1)) return nothing
  const previous =
    page > 1 ? html`<a class="button" rel="prev" href="${pathOf(Math.min(page - 1, totalPages))}">Previous</a>` : html`<span></span>`
  const next = page < totalPages ? html`<a class="button" rel="next" href="${pathOf(page + 1)}">Next</a>` : html`<span></span>`
  return html`<nav class="pager" aria-label="Pages">${previous}<span>Page ${page} of ${totalPages.toLocaleString('en')}</span>${next}</nav>`
}

/** Returns a path with the parameters that have a value. */
export function withParameters(
  path: string,
  parameters: Readonly<Record<string, string | number | readonly string[] | null | undefined>>,
): string {
  const pairs = Object.entries(parameters).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((one): [string, string][] => (one == null || one === '' ? [] : [[name, String(one)]])),
  )
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs)}`
}

const states: Readonly<Record<string, string>> = {
  pending: 'Waiting',
  processing: 'Being read',
  completed: 'Ready',
  failed: 'Failed',
  cancelled: 'Cancelled',
}

/** Returns a badge with the display name of the state of a document or job. */
export const stateBadge = (status: string): Markup => html`<span class="state ${status}">${states[status] ?? status}</span>`

/** Returns the badge of a document that has not been read successfully. */
export const documentState = (status: string): Markup => (status === 'completed' ? nothing : stateBadge(status))
