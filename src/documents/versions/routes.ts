import { z } from 'zod'
import type { App } from '../../app.ts'
import { invalid } from '../../errors.ts'
import { turnOf } from '../../http/event-context.ts'
import { ifMatchHeader, sendFile, untrustedContentHeaders } from '../../http/files.ts'
import { booleanText, parseInput } from '../../http/input.ts'
import { type Route, type UserCall, user } from '../../http/route.ts'
import { viewOf } from '../../http/view.ts'
import * as settings from '../../settings/settings.ts'
import { requireDocument, requireMatch } from '../access.ts'
import { textResponse, versionTextResponse } from '../content.ts'
import { fileOptions, readCost } from '../routes.ts'
import { compareLargeFiles, openStoredFile } from '../stored-files.ts'
import { receiveFiles } from '../uploads/routes.ts'
import { DocumentAnswer, view } from '../view.ts'
import * as versions from './versions.ts'

const VersionAnswer = z.object({
  number: z.int(),
  size: z.int(),
  sha256: z.string(),
  mime_type: z.string(),
  filename: z.string(),
  origin: z.enum(['upload', 'sync', 'restore', 'edit']),
  created_at: z.iso.datetime(),
  created_by: z.uuid().nullable().describe('User; null for a sync or the operator.'),
  current: z.boolean(),
})
export const ListAnswer = z.object({ versions: z.array(VersionAnswer) })
export const StoredAnswer = z.object({ version: VersionAnswer, document: DocumentAnswer })

const ReplaceForm = z.object({
  ocr_enabled: booleanText.default(true),
  language: settings.OcrLanguage.optional().describe('Default: the language of the document if it is installed.'),
})

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const
const versionFileOptions = (app: App) => {
  const { errors, ...options } = fileOptions(app)
  return { ...options, errors: ['VERSION_NOT_FOUND', ...errors] as const }
}

export const routes = (app: App): Route[] => [
  user(
    'PUT /api/documents/:id/file',
    {
      summary: 'Replace the file of a document',
      description: 'The file becomes the next version. 200 if the current version has the same bytes already: nothing changes.',
      headers: ifMatchHeader,
      ids,
      form: { fields: ReplaceForm, file: 'file', many: false },
      status: 201,
      answersStored: true,
      answer: StoredAnswer,
      otherAnswers: { 200: StoredAnswer },
      errors: ['PRECONDITION_FAILED', 'STORAGE_UNAVAILABLE'],
    },
    replace(app),
  ),
  user(
    'GET /api/documents/:id/versions',
    {
      summary: 'List the versions of a document, newest first',
      readsReplica: true,
      cost: readCost,
      ids,
      answer: ListAnswer,
      isLarge: true,
    },
    async ({ actor, param }) => ({ versions: (await versions.list(app, actor, param('id'))).map(versionView) }),
  ),
  user(
    'GET /api/documents/:id/versions/:number/download',
    { summary: 'Download the file of a version', ...versionFileOptions(app) },
    sendVersion(app, 'attachment'),
  ),
  user(
    'GET /api/documents/:id/versions/:number/view',
    { summary: 'Get the file of a version, inline if browsers can display its type safely', ...versionFileOptions(app) },
    sendVersion(app, 'inline'),
  ),
  user(
    'GET /api/documents/:id/versions/:number/text',
    {
      summary: 'Get the text of a version',
      readsReplica: true,
      cost: readCost,
      ids,
      produces: ['text/plain'],
      errors: ['VERSION_NOT_FOUND'],
    },
    async ({ actor, param }) => {
      const document = await requireDocument(app.reads, actor, param('id'), { inTrash: true })
      const { number, current } = await versions.get(app, actor, document.id, versionNumber(param))
      const headers = { ...untrustedContentHeaders, 'content-type': 'text/plain; charset=utf-8' }
      return current ? textResponse(app, document, headers) : versionTextResponse(app, document.id, number, headers)
    },
  ),
  user(
    'POST /api/documents/:id/versions/:number/restore',
    {
      summary: 'Restore a version',
      description: 'Adds a version with the bytes and the text of this one. 200 if the current version has these bytes already.',
      headers: ifMatchHeader,
      ids,
      status: 201,
      answersStored: true,
      answer: StoredAnswer,
      otherAnswers: { 200: StoredAnswer },
      errors: ['VERSION_NOT_FOUND', 'PRECONDITION_FAILED'],
    },
    async ({ actor, event, param }) => {
      const { version, created, document } = await versions.restore(
        app,
        actor,
        param('id'),
        versionNumber(param),
        event.req.headers.get('if-match'),
      )
      event.res.status = created ? 201 : 200
      return { version: versionView(version), document: view(document) }
    },
  ),
  user(
    'DELETE /api/documents/:id/versions/:number',
    {
      summary: 'Delete a version',
      description: 'If it is the current version, the newest of the others becomes current. The only version cannot be deleted.',
      headers: ifMatchHeader,
      ids,
      errors: ['VERSION_NOT_FOUND', 'PRECONDITION_FAILED', 'CONFLICT', 'RETENTION'],
    },
    ({ actor, event, param }) => versions.remove(app, actor, param('id'), versionNumber(param), event.req.headers.get('if-match')),
  ),
]

const replace =
  (app: App) =>
  async ({ actor, event, param }: UserCall) => {
    const id = param('id')
    const ifMatch = event.req.headers.get('if-match')
    // Refuses before the body is received.
    const before = await requireDocument(app.db, actor, id)
    requireMatch(before, ifMatch)
    const stored = await receiveFiles(app, event, 'file', 1, async ([file], fields) => {
      if (!file || file.staged.size === 0) throw invalid('file', 'the file is empty')
      const { ocr_enabled, language } = parseInput(ReplaceForm, fields)
      if (language) await settings.checkLanguage(app, language)
      await compareLargeFiles(app, before.owner_id, [file.staged])
      const result = await turnOf(event)(() =>
        app.db.transaction().execute(async (trx) => {
          const ocr = ocr_enabled && app.ocr !== null
          const replacement = { ...file, ocr, language, ifMatch }
          const stored = await versions.replace(app, trx, actor, id, replacement)
          return { ...stored, document: await requireDocument(trx, actor, id) }
        }),
      )
      await file.staged.confirm()
      return result
    })
    event.res.status = stored.created ? 201 : 200
    return { version: versionView(stored.version), document: view(stored.document) }
  }

const sendVersion =
  (app: App, how: 'attachment' | 'inline') =>
  async ({ actor, event, param }: UserCall) => {
    const { sha256, size, filename, mime_type, created_at } = await versions.get(app, actor, param('id'), versionNumber(param))
    return sendFile(event, await openStoredFile(app, { sha256, size, filename, mime_type, created_at, file_replaced_at: null }), how)
  }

/** Returns the version number in the path. 0, which no version has, stands for anything else. */
const versionNumber = (param: (name: string) => string): number => {
  const text = param('number')
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
}

const versionView = (version: versions.Version) => viewOf(VersionAnswer, { ...version })
