import type { Client } from '../client/client.ts'
import { formatBytes, formatDate, html, type Markup, nothing } from '../http/html.ts'

type Version = Awaited<ReturnType<Client['documents']['versions']>>[number]

const origins: Readonly<Record<Version['origin'], string>> = {
  upload: 'Uploaded',
  sync: 'From its source',
  restore: 'Restored',
  edit: 'Edited',
}

/** Returns the versions of a document, newest first; nothing for the only one. `canRestore`: each old version has a button that restores it. */
export const versionList = (id: string, versions: readonly Version[], canRestore: boolean): Markup =>
  versions.length < 2
    ? nothing
    : html`<section class="versions" aria-labelledby="versions">
<h2 id="versions">Versions</h2>
<ol class="jobs">${versions.map((version) => item(id, version, canRestore))}</ol>
</section>`

const item = (
  id: string,
  { number, size, filename, origin, created_at, current }: Version,
  canRestore: boolean,
): Markup => html`<li class="card"><div>
<strong>Version ${number}</strong>${current ? html` <span class="state completed">Current</span>` : nothing}
<p class="facts"><time datetime="${created_at}">${formatDate(new Date(created_at))}</time><span>${formatBytes(size)}</span><span>${origins[origin]}</span><span class="filename">${filename}</span></p>
</div>
<a class="button plain" href="/documents/${id}/versions/${number}/download" download>Download<span class="hidden"> version ${number}</span></a>
${canRestore && !current ? html`<form method="post" action="/documents/${id}/restore"><input type="hidden" name="number" value="${number}"><button class="plain">Restore<span class="hidden"> version ${number}</span></button></form>` : nothing}</li>`
