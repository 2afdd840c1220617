import type { z } from 'zod'
import type { BulkAnswer } from '../documents/uploads/forms.ts'
import { formatBytes, html, type Markup } from '../http/html.ts'
import { layout } from './layout.ts'
import type { Visit } from './visit.ts'

/** Returns the upload form. The script sends files one by one with their progress; without it the form sends several at once. */
export const uploadPage = async (visit: Visit): Promise<string> => render(visit, form(visit.app.config.limits))

/** Returns the page after an upload: its results and another form. */
export const uploadedPage = (visit: Visit, { documents }: z.infer<typeof BulkAnswer>): string =>
  render(visit, html`<ul class="uploads" aria-label="Uploaded files">${documents.map(result)}</ul>${form(visit.app.config.limits)}`)

const render = ({ app, username }: Visit, content: Markup): string =>
  layout({ app, title: 'Upload', username, path: '/upload', content: html`<div class="narrow"><h1>Upload</h1>${content}</div>` })

const form = ({ bulk_max_files, max_upload_size }: { bulk_max_files: number; max_upload_size: number }): Markup =>
  html`<form class="drop card" method="post" action="/upload" enctype="multipart/form-data">
<svg viewBox="0 0 48 48" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round"><path d="M24 31V9m0 0-9 9m9-9 9 9M7 31v6a4 4 0 0 0 4 4h26a4 4 0 0 0 4-4v-6"/></svg>
<label for="files">Choose files<span class="with-script">, or drop them anywhere on this page</span></label>
<input id="files" name="files" type="file" multiple required>
<button class="strong">Upload</button>
<p class="quiet small">Up to ${formatBytes(max_upload_size)} each<span class="without-script">, ${bulk_max_files} at once</span>. Files that you have uploaded before are not stored again.</p>
</form>`

function result(file: z.infer<typeof BulkAnswer>['documents'][number]): Markup {
  if (file.status === 'failed') return html`<li class="bad"><span>${file.filename}</span><span>${file.error.message}</span></li>`
  return html`<li class="good"><a href="/documents/${file.id}">${file.filename}</a><span>${file.created ? 'Uploaded' : 'Was there already'}</span></li>`
}
