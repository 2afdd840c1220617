/**
 * Every route against documents under retention and under hold. The requests are those of the table of all routes (test/route-table/), which has a row for
 * each route: their documents are protected before they are sent.
 */
import { expect, test, vi } from 'vitest'
import type { Route } from '../../../src/http/route.ts'
import { rowOf } from '../../route-table/all.ts'
import { protections, trackProtectedDocuments } from '../../support/protected-documents.ts'
import { nameOf, type RouteRequest, startWorld, usualOf } from '../../support/route-table.ts'

vi.setConfig({ testTimeout: 600_000 })

/** DELETE of anything but documents. A route that is missing here must refuse with RETENTION. */
const deletesNoDocument = [
  'DELETE /api/comments/documents/:document_id/comments/:comment_id',
  'DELETE /api/holds/:id/documents/:document_id',
  'DELETE /api/labels/:id',
  'DELETE /api/notifications/:id',
  'DELETE /api/ocr/queue/:id',
  'DELETE /api/shared-links/:id',
  'DELETE /api/shared/links/:id',
  'DELETE /api/tokens/:id',
]

/** Preparing a request may need a deletion, which the protection refuses. */
const isRefusal = (error: unknown): boolean => ['RETENTION', 'DM001'].includes((error as { code?: string }).code ?? '')

const canRefuse = ({ shape }: Route): boolean => shape.errors?.includes('RETENTION') === true

test('no route destroys a document under retention or hold; those that could answer 409 RETENTION', async () => {
  const world = await startWorld()
  const protectedDocuments = trackProtectedDocuments(world.app)
  const makeDocument = world.document
  const refusing = new Set<string>()
  const problems: string[] = []
  let sent = 0
  for (const how of protections) {
    world.document = async (...args: Parameters<typeof makeDocument>) => {
      const id = await makeDocument(...args)
      await protectedDocuments.protect(id, how)
      return id
    }
    for (const route of world.routes.filter((one) => one.method !== 'GET' || canRefuse(one))) {
      const { good, errors = {}, also = {}, withIds = [] } = rowOf(route)
      const { who, actor } = usualOf(route, world)
      for (const make of [good, ...withIds, ...Object.values(errors), ...Object.values(also)]) {
        const ask: RouteRequest | null = await Promise.resolve(make(world, who)).catch((error) => {
          if (isRefusal(error)) return null
          throw error
        })
        if (!ask) continue
        const text = await world.send(route, ask, actor).then(
          (answer) => answer.text(),
          (error: Error) => error.message,
        )
        sent++
        if (text.includes('"RETENTION"')) refusing.add(nameOf(route))
        if (/INTERNAL_ERROR|does not know/.test(text)) problems.push(`${nameOf(route)}: ${text}`)
        for (const id of await protectedDocuments.listDestroyed()) problems.push(`${nameOf(route)} destroyed ${id}`)
      }
    }
  }
  expect(problems).toEqual([])
  expect(await protectedDocuments.listDamaged()).toEqual([])
  // Every route that names the code answers with it, and every other DELETE is known.
  const named = world.routes.filter(canRefuse).map(nameOf)
  expect([...refusing].sort()).toEqual(named.sort())
  const others = world.routes.filter((one) => one.method === 'DELETE' && !canRefuse(one)).map(nameOf)
  expect(others.sort()).toEqual(deletesNoDocument)
  expect([sent, protectedDocuments.ids().length].every((count) => count > 50)).toBe(true)
})
