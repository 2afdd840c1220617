/** Answers to API tokens without the scope `read`, generated from the route table. */
import { expect, test } from 'vitest'
import { scopeOf } from '../../src/http/route.ts'
import { rowOf } from '../route-table/all.ts'
import { startApp, upload } from '../support/app.ts'
import { nameOf, startWorld, usualOf } from '../support/route-table.ts'

test('204 without a body on every route that changes something, 201 with what was sent, or 403 FORBIDDEN if read is needed', async () => {
  const world = await startWorld()
  const writing = world.routes.filter(({ access, method, shape }) => access === 'user' && scopeOf(access, method, shape) === 'write')
  expect(writing.length).toBeGreaterThan(20)
  for (const route of writing) {
    const name = nameOf(route)
    const { who, actor } = usualOf(route, world)
    const ask = await rowOf(route).good(world, who)
    const answer = await world.send(route, { ...ask, as: { ...(ask.as ?? actor!), scopes: ['write'] } }, null)
    const body = await answer.text()
    const { needsRead, status, answersStored } = route.shape
    const expected = needsRead ? 403 : status === 201 && !answersStored ? 201 : 204
    expect([name, answer.status, answer.status === 204 ? body : '', answer.headers.get('etag')]).toEqual([name, expected, '', null])
  }
})

test('a write-only token cannot read the text of a document: by an empty PUT, a shared link, or an upload of the same file', async () => {
  const { asAda, asStranger, runJobs } = await startApp()
  const text = 'the secret text of Ada'
  const { id } = await upload(asAda, 'a.txt', text)
  await runJobs()
  expect((await asAda.documents.get(id)).content).toContain(text)
  const { token } = await asAda.tokens.create({ name: 'writer', scopes: ['write'] })
  const headers = { authorization: `Bearer ${token}` }
  const put = await asStranger.send('PUT', `/api/documents/${id}`, {}, headers)
  expect([put.status, await put.text()]).toEqual([204, ''])
  const link = await asStranger.send('POST', '/api/shared-links', { document_id: id }, headers)
  expect([link.status, (await link.json()).error]).toMatchObject([403, { code: 'FORBIDDEN', details: { scope: 'read' } }])
  const form = new FormData()
  form.set('on_duplicate', 'return')
  form.set('file', new File([text], 'b.txt'))
  const encoded = new Response(form)
  const bytes = Buffer.from(await encoded.arrayBuffer())
  const again = await asStranger.raw(
    'POST',
    '/api/documents',
    { open: () => bytes, size: bytes.length },
    { ...headers, 'content-type': encoded.headers.get('content-type') ?? '' },
  )
  const answer = await again.text()
  expect([again.status, JSON.parse(answer).id]).toEqual([200, id])
  expect(answer).not.toContain('secret')
})
