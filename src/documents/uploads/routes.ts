import type { App } from '../../app.ts'
import { turnOf } from '../../http/event-context.ts'
import { type Fields, type MultipartLimits, readMultipart } from '../../http/multipart.ts'
import { type Call, type Route, type UserCall, user } from '../../http/route.ts'
import { storeAll } from './bulk-upload.ts'
import { type UploadQuery, uploadMany, uploadOne } from './forms.ts'
import { type GroupCommit, openGroupCommit } from './group-commit.ts'
import { storeOne, type UploadedFile, withStagedFiles } from './requests.ts'

export function routes(app: App): Route[] {
  const group = openGroupCommit(app)
  return [
    user('POST /api/documents/upload', { summary: 'Upload one file', ...uploadOne }, upload(app, group)),
    user('POST /api/documents', { summary: 'Upload one file (alias)', ...uploadOne }, upload(app, group)),
    user('POST /api/documents/bulk-upload', { summary: 'Upload several files', ...uploadMany }, bulkUpload(app, group)),
  ]
}

const upload =
  (app: App, group: GroupCommit) =>
  async ({ actor, event, query }: UserCall<typeof UploadQuery>) => {
    const key = event.req.headers.get('idempotency-key')
    const store = () =>
      receiveFiles(app, event, 'file', 1, ([file], fields) =>
        storeOne(app, group.store, actor, file as UploadedFile, { fields: { ...query, ...fields }, key, takeTurn: turnOf(event) }),
      )
    // With a key, the answer is recorded in a transaction of its own.
    const stored = await (key === null ? group.announce(store) : store())
    event.res.status = stored.status
    event.context.documentIds = [stored.answer.id]
    // The existing document may have a text, which a token without the scope `read` must not get.
    if (actor.scopes?.includes('read') ?? true) return stored.answer
    const { content: _, content_truncated: __, ...document } = stored.answer.document
    return { ...stored.answer, document }
  }

const bulkUpload =
  (app: App, group: GroupCommit) =>
  async ({ actor, event, query }: UserCall<typeof UploadQuery>) => {
    const key = event.req.headers.get('idempotency-key')
    const answer = await receiveFiles(app, event, 'files', app.config.limits.bulk_max_files, (files, fields) =>
      storeAll(app, group.store, actor, files, { fields: { ...query, ...fields }, key, takeTurn: turnOf(event) }),
    )
    event.context.documentIds = answer.documents.flatMap((document) => (document.status === 'uploaded' ? [document.id] : []))
    return answer
  }

/** Receives up to `maxFiles` files in the field `field` and passes them to `store`. */
export function receiveFiles<T>(
  app: App,
  event: Call['event'],
  field: string,
  maxFiles: number,
  store: (files: UploadedFile[], fields: Fields) => Promise<T>,
): Promise<T> {
  const { max_upload_size } = app.config.limits
  const limits: MultipartLimits = {
    field,
    files: maxFiles,
    fileBytes: max_upload_size,
    // One mebibyte per file is for fields and part headers.
    totalBytes: maxFiles * (max_upload_size + (1 << 20)),
    timeoutMs: app.config.server.upload_timeout,
  }
  return withStagedFiles(app, field, (take) => readMultipart(event, limits, take), store)
}
