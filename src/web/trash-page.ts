import type { App } from '../app.ts'
import { cookieLine, cookieName, isSecure } from '../auth/page-session.ts'
import type { Client } from '../client/client.ts'
import { dayElement, formatBytes, html, type Markup, nothing } from '../http/html.ts'
import { redirect } from './answers.ts'
import { layout, notice, pager, withParameters } from './layout.ts'
import type { Visit } from './visit.ts'

const perPage = 20

type Trashed = Awaited<ReturnType<Client['trash']['page']>>['data'][number]

const deletionName = 'dms_deletion'

/** Returns the Set-Cookie line that tells the next page of the trash what was deleted for good; null removes it. An address could be forged. */
export const deletionCookie = (app: App, deletion: { purged: number; retained: number } | null): string =>
  cookieLine(deletionName, deletion ? `${deletion.purged}.${deletion.retained}` : '', deletion ? 60 : 0, isSecure(app))

export const deletionCookieName = (app: App): string => cookieName(deletionName, isSecure(app))

/** Returns the page of documents in the trash, last deleted first. `deletion`: value of the cookie. */
export async function trashPage({ app, client, query, username }: Visit, deletion = ''): Promise<string> {
  const page = Math.max(1, Math.floor(Number(query.get('page')) || 1))
  const { data, pagination } = await client.trash.page({ page, per_page: perPage })
  const days = app.config.documents.trash_days
  const content = html`<div class="narrow">
<div class="heading"><h1>Trash</h1>${pagination.total === 0 ? nothing : html`<a class="button" href="/trash/empty">Empty trash</a>`}</div>
${deletionNotice(deletion)}
${pagination.total === 0 ? html`<div class="empty card"><h2>The trash is empty</h2><p>${days === 0 ? 'Deleted documents are not kept on this server.' : `Deleted documents stay here for ${days} days.`}</p></div>` : html`<ol class="jobs">${data.map((document) => item(document, username))}</ol>`}
${pager(page, pagination.total_pages, (page) => withParameters('/trash', { page }))}
</div>`
  return layout({ app, title: 'Trash', username, path: '/trash', content })
}

function deletionNotice(deletion: string): Markup {
  const counts = /^(\d{1,9})\.(\d{1,9})$/.exec(deletion)
  if (!counts) return nothing
  const [purged, retained] = [Number(counts[1]), Number(counts[2])]
  return notice(
    'good',
    `${documentCount(purged)} deleted for good.${retained ? ` ${documentCount(retained)} must be kept, and ${retained === 1 ? 'stays' : 'stay'} in the trash until then.` : ''}`,
  )
}

/** Returns `1,234 documents`. */
export const documentCount = (count: number): string => `${count.toLocaleString('en')} ${count === 1 ? 'document' : 'documents'}`

const item = ({ id, title, filename, size, owner, deleted_at, purge_at }: Trashed, username: string): Markup => html`<li class="card"><div>
<a href="/documents/${id}">${title}</a>
<p class="facts"><span class="filename">${filename}</span><span>${formatBytes(size)}</span>${owner === username ? nothing : html`<span>Of ${owner}</span>`}${deleted_at ? html`<span>Deleted ${dayElement(deleted_at)}</span>` : nothing}${purge_at ? html`<span>Kept until ${dayElement(purge_at)}</span>` : nothing}</p>
</div>
${undeleteForm(id, '/trash', html`Restore<span class="hidden"> ${title}</span>`)}</li>`

/** Returns a form that moves a document out of the trash, then opens `next`. */
export const undeleteForm = (id: string, next: string, label: string | Markup): Markup =>
  html`<form method="post" action="/documents/${id}/undelete"><input type="hidden" name="next" value="${next}"><button>${label}</button></form>`

/** Returns the question before the trash is emptied. Redirects to an empty trash. */
export async function emptyTrashPage(visit: Visit, { hasChanged = false } = {}): Promise<string | Response> {
  const { pagination } = await visit.client.trash.page({ per_page: 1 })
  if (pagination.total === 0) return redirect('/trash')
  return question(visit, '/trash', {
    ...(hasChanged && { problem: 'The number of documents in the trash has changed.' }),
    count: pagination.total,
    title: `Delete ${documentCount(pagination.total)} for good?`,
    text: `All documents in the trash${visit.isAdmin ? ' of all users' : ''} are deleted with their versions and comments. This cannot be undone. Documents that must be kept stay.`,
    back: '/trash',
  })
}

/** Returns the question before a document is deleted without the trash. */
export async function deletePage(visit: Visit): Promise<string> {
  const { id } = visit
  const { title } = await visit.client.documents.get(id, { content: false })
  return question(visit, `/documents/${id}/delete`, {
    title: 'Delete this document for good?',
    text: html`“<bdi>${title}</bdi>” is deleted with all versions, comments and links. This cannot be undone.`,
    back: `/documents/${id}`,
  })
}

const question = (
  { app, username }: Visit,
  action: string,
  { title, text, back, problem, count }: { title: string; text: string | Markup; back: string; problem?: string; count?: number },
): string =>
  layout({
    app,
    title,
    username,
    content: html`<div class="narrow"><div class="card empty">
${problem === undefined ? nothing : notice('bad', problem)}
<h1>${title}</h1>
<p>${text}</p>
<form class="actions" method="post" action="${action}"><input type="hidden" name="permanent" value="true">${count === undefined ? nothing : html`<input type="hidden" name="count" value="${count}">`}<a class="button strong" href="${back}">Keep</a><button class="danger">Delete for good</button></form>
</div></div>`,
  })
