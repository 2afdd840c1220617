import { z } from 'zod'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { type Route, user } from '../../http/route.ts'
import { requireDocument, requireDocumentName } from '../access.ts'
import { PagesAnswer, PagesQuery, pagesResponse } from '../content.ts'
import { ifNoneMatch, readCost } from '../routes.ts'
import { pageImageResponse, pageWidths, preferredType } from '../thumbnails.ts'

export const PageImageQuery = z.object({
  width: z.enum(pageWidths).default('1000').describe('Maximum width in pixels.'),
})

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const

export const routes = (app: App): Route[] => [
  user(
    'GET /api/documents/:id/pages',
    { summary: 'Get the text by page', readsReplica: true, cost: readCost, ids, query: PagesQuery, answer: PagesAnswer, isLarge: true },
    async ({ actor, param, query }) =>
      pagesResponse(app, (await requireDocumentName(app.reads, actor, param('id'), { inTrash: true })).id, query),
  ),
  user(
    'GET /api/documents/:id/pages/:number/image',
    {
      summary: 'Get a picture of a page',
      cost: readCost,
      headers: { Accept: 'Selects JPEG if it has a higher weight than WebP. Default: WebP.', ...ifNoneMatch },
      ids,
      query: PageImageQuery,
      produces: ['image/webp', 'image/jpeg'],
      errors: ['PAGE_IMAGE_NOT_FOUND', 'STORAGE_UNAVAILABLE'],
    },
    async ({ actor, event, param, query }) => {
      const { headers } = event.req
      const document = await requireDocument(app.db, actor, param('id'), { inTrash: true })
      const image = { page: pageNumber(param), width: Number(query.width), type: preferredType(headers.get('accept')) }
      return pageImageResponse(app, document, image, headers.get('if-none-match'))
    },
  ),
]

/** Returns the number in the path. Throws PAGE_IMAGE_NOT_FOUND if it is no number of a page. */
function pageNumber(param: (name: string) => string): number {
  const text = param('number')
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new AppError('PAGE_IMAGE_NOT_FOUND')
  return Number(text)
}
