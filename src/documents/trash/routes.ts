import { z } from 'zod'
import type { App } from '../../app.ts'
import { type TakeTurn, turnOf } from '../../http/event-context.ts'
import { booleanText } from '../../http/input.ts'
import { jsonType, StreamedAnswer } from '../../http/json/stream.ts'
import { pageQuery, pageSchema, pagination } from '../../http/pages.ts'
import { type Route, user } from '../../http/route.ts'
import { resolvePage } from '../../settings/settings.ts'
import { documentResponse } from '../content.ts'
import { assertNotWorm } from '../retention.ts'
import { DocumentAnswer, etag, trashView, view } from '../view.ts'
import { emptyTrash, planEmptying } from './purge-trash.ts'
import * as trash from './trash.ts'

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const

export const DeleteQuery = z.object({
  permanent: booleanText.default(false).describe('true destroys the document at once, also one in the trash.'),
})
export const DeletionAnswer = z.object({ permanent: z.boolean().describe('true: destroyed; false: moved to the trash.') })
/** An empty owner, as of a variable that a script has not set, must not stand for all owners. */
const owner = z.string().min(1).max(200).optional().describe('Name or id of the owner, for admins.')
export const EmptyQuery = z.object({ owner })
export const trashQuery = (app: App) => z.object({ ...pageQuery(app.config), owner })

export const TrashAnswer = pageSchema(DocumentAnswer).extend({
  trash_days: z.int().describe('0: there is no trash, and deletion is final.'),
})
export const EmptyAnswer = z.object({ purged: z.int(), retained: z.int().describe('Documents under retention or hold, which stay.') })

export const routes = (app: App): Route[] => [
  user(
    'DELETE /api/documents/:id',
    {
      summary: 'Move a document to the trash, or destroy it',
      description:
        'A document in the trash is visible to its owner and to admins. After `documents.trash_days` it is destroyed. Without a trash, deletion is final.',
      headers: { 'If-Match': 'ETag of the document to delete.' },
      ids,
      query: DeleteQuery,
      errors: ['PRECONDITION_FAILED', 'RETENTION'],
    },
    ({ actor, event, param, query }) =>
      trash.remove(app, actor, param('id'), { isPermanent: query.permanent, ifMatch: event.req.headers.get('if-match') }),
  ),
  user(
    'GET /api/documents/:id/deletion',
    {
      summary: 'Tell what the deletion of a document would do',
      description: 'Fails as the deletion would, and changes nothing.',
      ids,
      query: DeleteQuery,
      answer: DeletionAnswer,
      errors: ['RETENTION'],
    },
    async ({ actor, param, query }) => ({ permanent: await trash.checkRemoval(app, actor, param('id'), { isPermanent: query.permanent }) }),
  ),
  user(
    'POST /api/documents/:id/undelete',
    { summary: 'Move a document out of the trash', ids, answer: DocumentAnswer, errors: ['CONFLICT'] },
    async ({ actor, event, param }) => {
      const document = await trash.restore(app, actor, param('id'))
      event.context.headers = { etag: etag(document) }
      return documentResponse(app, document)
    },
  ),
  user(
    'GET /api/trash',
    { summary: 'List the trash, last deleted first', query: trashQuery(app), answer: TrashAnswer, isLarge: true },
    async ({ actor, query }) => {
      const page = await resolvePage(app, actor, query)
      const fetched = await trash.list(app, actor, query, page)
      const data = fetched.rows.map((document) => ({ ...view(document), ...trashView(app, document) }))
      return { data, pagination: pagination(page, fetched), trash_days: app.config.documents.trash_days }
    },
  ),
  user(
    'GET /api/trash/deletion',
    {
      summary: 'Tell what emptying the trash would destroy',
      description: 'Fails as emptying it would, and changes nothing.',
      query: EmptyQuery,
      answer: EmptyAnswer,
      errors: ['RETENTION'],
    },
    async ({ actor, query }) => {
      assertNotWorm(app)
      return planEmptying(app, actor, query.owner)
    },
  ),
  user(
    'DELETE /api/trash',
    {
      summary: 'Empty the trash: destroy what the list of the trash shows',
      description: 'Works in batches. White space is sent meanwhile to keep the connection open. If it is interrupted, repeat it.',
      query: EmptyQuery,
      answer: EmptyAnswer,
      // The answer is the work: a token that may not read it would end it.
      needsRead: true,
      takesTurns: true,
      errors: ['RETENTION'],
    },
    async ({ actor, event, query }) => {
      assertNotWorm(app)
      return new StreamedAnswer(reportProgress(emptyTrash(app, actor, query.owner), turnOf(event)), { 'content-type': jsonType })
    },
  ),
]

/** Yields a space for each step, then the result as JSON. */
async function* reportProgress(work: AsyncGenerator<unknown, object>, takeTurn: TakeTurn): AsyncGenerator<string> {
  for (;;) {
    const { done, value } = await takeTurn(() => work.next())
    if (done) return yield JSON.stringify(value)
    yield ' '
  }
}
