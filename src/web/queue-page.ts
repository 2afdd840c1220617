import type { OcrJob, OcrStatus } from '../client/ocr-queue.ts'
import { formatDate, html, type Markup, nothing } from '../http/html.ts'
import { layout, notice, stateBadge } from './layout.ts'
import type { Visit } from './visit.ts'

const maxJobs = 50

/** Returns the OCR queue: counts, then running, waiting and failed jobs. The script refreshes it. */
export async function queuePage({ app, client, username }: Visit): Promise<string> {
  const [status, active, failed] = await Promise.all([
    client.ocrQueue.status(),
    client.ocrQueue.page({ status: 'processing,pending', per_page: maxJobs }),
    client.ocrQueue.page({ status: 'failed', per_page: maxJobs }),
  ])
  const content = html`<div class="narrow" id="queue" data-active="${active.data.length}">
<div class="heading"><h1>Queue</h1><a class="button without-script" href="/queue">Refresh</a></div>
${counts(status)}
${status.paused ? notice('quiet', 'The queue is paused by an admin. Waiting documents are read when it is resumed.') : nothing}
${active.data.length + failed.data.length === 0 ? html`<div class="empty card"><h2>Nothing to do</h2><p>All documents have been read.</p></div>` : nothing}
${list('Running and waiting', active.data, active.pagination.total)}
${failed.data.length === 0 ? nothing : html`${list('Failed', failed.data, failed.pagination.total)}<form method="post" action="/queue"><button>Try all failed again</button></form>`}
</div>`
  return layout({ app, title: 'Queue', username, path: '/queue', content })
}

const counts = ({ processing, pending, completed_today, failed, estimated_completion }: OcrStatus): Markup => {
  const tiles: [string, number][] = [
    ['Running', processing],
    ['Waiting', pending],
    ['Done today', completed_today],
    ['Failed', failed],
  ]
  return html`<dl class="tiles">${tiles.map(([name, count]) => html`<div><dt>${name}</dt><dd>${count.toLocaleString('en')}</dd></div>`)}</dl>
${estimated_completion && pending + processing > 0 ? html`<p class="quiet">Probably done at <time datetime="${estimated_completion}">${formatDate(new Date(estimated_completion))}</time>.</p>` : nothing}`
}

function list(name: string, jobs: readonly OcrJob[], total: number): Markup {
  if (jobs.length === 0) return nothing
  const rest = total - jobs.length
  return html`<h2>${name}</h2><ul class="jobs">${jobs.map(item)}</ul>${rest > 0 ? html`<p class="quiet">and ${rest.toLocaleString('en')} more</p>` : nothing}`
}

const item = ({ id, document_id, title, status, progress, pages_done, pages_total, error }: OcrJob): Markup =>
  html`<li class="card"><div><a href="/documents/${document_id}">${title}</a>${error ? html`<p class="bad-text">${error.message}</p>` : nothing}</div>
${status === 'processing' ? html`<span class="progress"><progress max="100" value="${progress}" aria-label="Progress of ${title}"></progress><span>${pages_total === null ? '' : `${pages_done} of ${pages_total} ${pages_total === 1 ? 'page' : 'pages'}`}</span></span>` : nothing}
${status === 'failed' ? html`<form method="post" action="/queue"><input type="hidden" name="id" value="${id}"><button class="plain">Try again<span class="hidden"> to read ${title}</span></button></form>` : stateBadge(status)}</li>`
