import { expect, test } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import { startApp, upload } from '../support/app.ts'
import { storeFiles } from '../support/servers/server.ts'

const statusOf = async (answer: Promise<Response>) => {
  const response = await answer
  if (response.status < 400) return response.status
  return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
}
const remove = (client: Client, id: string, query = '') => statusOf(client.send('DELETE', `/api/documents/${id}${query}`))
const undelete = (client: Client, id: string) => statusOf(client.send('POST', `/api/documents/${id}/undelete`))
const trashOf = async (client: Client, query = {}) => (await client.trash.page(query)).data.map(({ id }) => id)
const gone = [404, 'DOCUMENT_NOT_FOUND']
const days = (count: number) => count * 86_400_000

test('204: lists, counts, search, suggestions, facets and duplicates leave the document out; undelete brings all of it back', async () => {
  const { app, dataDir, asAda, asAdmin, asStranger, runJobs } = await startApp()
  const label = await asAda.labels.create({ name: 'bills', color: '#aabbcc' })
  const { id, sha256, title } = await upload(asAda, 'a.txt', 'a quetzal sings', { labels: 'bills', document_date: '2024-02-03' })
  const other = await upload(asAda, 'b.txt', 'a hoopoe sings')
  await runJobs()
  const { token } = await asAda.sharedLinks.create({ document_id: id })
  await asAda.comments.create(id, { content: 'keep me' })
  const look = async () => ({
    list: (await asAda.documents.page({})).pagination.total,
    years: (await asAda.call<{ facets: { years: object } }>('GET', '/api/documents?facets=years')).facets.years,
    all: (await asAdmin.documents.page({})).pagination.total,
    hits: (await asAda.search.query('quetzal')).total,
    facets: (await asAda.search.query('sings')).facets.mime_types,
    suggestions: (await asAda.search.suggest('quet')).length,
    labelled: (await asAda.labels.list())[0]?.document_count,
    known: (await asAda.documents.known([sha256])).size,
    links: (await asAda.call<{ shared_links: unknown[] }>('GET', '/api/shared-links')).shared_links.length,
    link: await statusOf(asStranger.send('GET', `/api/public/shared/${token}`)),
    comments: await asAda.comments.count(id),
    metrics: (await status(app)).database,
    archive: (await (await asAda.documents.batchGet([id])).arrayBuffer()).byteLength > 1024,
  })
  const before = await look()
  expect(before).toMatchObject({
    list: 2,
    years: { 2024: 1 },
    hits: 1,
    facets: { 'text/plain': 2 },
    suggestions: 1,
    labelled: 1,
    known: 1,
    link: 200,
  })

  expect(await remove(asAda, id)).toBe(204)
  const trashed = {
    ...before,
    list: 1,
    all: 1,
    years: {},
    hits: 0,
    facets: { 'text/plain': 1 },
    suggestions: 0,
    labelled: 0,
    known: 0,
    links: 0,
    link: [410, 'SHARED_LINK_REVOKED'],
    metrics: 1,
    archive: false,
  }
  expect(await look()).toEqual(trashed)
  await runJobs()
  await reindex(app)
  expect(await look()).toEqual(trashed)
  expect((await storeFiles(dataDir)).named).toHaveLength(2)

  expect(await undelete(asAda, id)).toBe(200)
  await runJobs()
  expect(await look()).toEqual(before)
  expect(await asAda.documents.get(id)).toMatchObject({ title, content: 'a quetzal sings', labels: [label.name] })
  expect(await asAda.documents.get(other.id)).not.toHaveProperty('deleted_at')
})

test('owner and admin read a document in the trash, every change is 404, and for others it does not exist', async () => {
  const { app, asAda, asBob, asAdmin, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a quetzal sings')
  await runJobs()
  const { id: live } = await upload(asAda, 'b.txt', 'b')
  const label = await asAda.labels.create({ name: 'bills', color: '#aabbcc' })
  await remove(asAda, id)
  for (const client of [asAda, asAdmin]) {
    const { deleted_at = '', purge_at = '', content } = await client.documents.get(id)
    expect([content, Date.parse(purge_at) - Date.parse(deleted_at)]).toEqual(['a quetzal sings', days(30)])
    expect((await client.documents.get(id, { content: false })).purge_at).toBe(purge_at)
    expect(await client.documents.text(id)).toBe('a quetzal sings')
    for (const part of ['download', 'view', 'pages', 'thumbnail', 'matches?q=x'])
      expect(await statusOf(client.send('GET', `/api/documents/${id}/${part}`))).toBe(200)
  }
  const changes = (client: Client): Promise<Response>[] => [
    client.send('PUT', `/api/documents/${id}`, { title: 'x' }),
    client.send('PUT', `/api/labels/documents/${id}`, { label_ids: [] }),
    client.send('POST', `/api/labels/${label.id}/assign`, { document_ids: [live, id] }),
    client.send('POST', `/api/documents/${id}/retry-ocr`, {}),
    client.send('POST', '/api/shared-links', { document_id: id }),
    client.send('GET', `/api/documents/${id}/similar`),
    client.send('DELETE', `/api/documents/${id}`),
  ]
  for (const client of [asAda, asBob, asAdmin]) for (const answer of changes(client)) expect(await statusOf(answer)).toEqual(gone)
  await expect(asAda.documents.update(id, { title: 'x' })).rejects.toThrow('in the trash')
  await expect(asBob.documents.update(id, { title: 'x' })).rejects.toThrow('does not exist')
  const comment = asAda.send('POST', `/api/comments/documents/${id}/comments`, { content: 'x' })
  expect(await statusOf(comment)).toEqual([404, 'COMMENT_DOCUMENT_NOT_FOUND'])
  for (const path of ['', '/download', '/text', '/pages', '/thumbnail'])
    expect(await statusOf(asBob.send('GET', `/api/documents/${id}${path}`))).toEqual(gone)
  expect(await undelete(asBob, id)).toEqual(gone)
  expect(await remove(asBob, id, '?permanent=true')).toEqual(gone)
  expect(await app.db.selectFrom('document_labels').selectAll().execute()).toEqual([])
})

test('the trash lists own documents, last deleted first, with cursor; admins see all or those of one owner', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const ids: string[] = []
  for (const name of ['a', 'b', 'c']) ids.push((await upload(asAda, name, name)).id)
  const { id: ofBob } = await upload(asBob, 'd', 'd')
  for (const id of ids) await remove(asAda, id)
  await remove(asAdmin, ofBob)
  expect(await trashOf(asAda)).toEqual(ids.toReversed())
  expect(await trashOf(asAda, { owner: 'bob' })).toEqual([])
  expect(await trashOf(asBob)).toEqual([ofBob])
  expect(await trashOf(asAdmin)).toEqual([ofBob, ...ids.toReversed()])
  expect(await trashOf(asAdmin, { owner: 'bob' })).toEqual([ofBob])
  const first = await asAda.trash.page({ per_page: 2 })
  expect([first.trash_days, first.pagination.total]).toEqual([30, 3])
  expect(await trashOf(asAda, { per_page: 2, cursor: first.pagination.next_cursor ?? '' })).toEqual([ids[0]])
  expect((await asAda.send('GET', `/api/trash?owner=bob&cursor=${first.pagination.next_cursor}`)).status).toBe(400)
})

test('409 CONFLICT to undelete what is not in the trash; of deletions and undeletes at once each takes effect once', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a quetzal sings')
  expect(await undelete(asAda, id)).toEqual([409, 'CONFLICT'])
  const removals = await Promise.all(Array.from({ length: 6 }, () => remove(asAda, id)))
  expect(removals.filter((status) => status === 204)).toHaveLength(1)
  expect(removals.filter((status) => status !== 204)).toEqual(Array(5).fill(gone))
  const returns = await Promise.all(Array.from({ length: 6 }, () => undelete(asAda, id)))
  expect(returns.filter((status) => status === 200)).toHaveLength(1)
  const types = await app.db.selectFrom('events').select('type').where('type', 'in', ['document_trashed', 'document_restored']).execute()
  expect(types.map(({ type }) => type).sort()).toEqual(['document_restored', 'document_trashed'])
  // Its text was not extracted before: the job is there again.
  await runJobs()
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', content: 'a quetzal sings' })
  await Promise.all([
    remove(asAda, id),
    undelete(asAda, id),
    remove(asAda, id, '?permanent=true'),
    undelete(asAda, id),
    asAda.trash.empty(),
  ])
  expect(await app.db.selectFrom('documents').selectAll().execute()).toEqual([])
})

test('a document that is indexed while it goes to the trash leaves no entry behind', async () => {
  const { app, asAda, runJobs } = await startApp()
  const ids: string[] = []
  for (let index = 0; index < 8; index++) ids.push((await upload(asAda, `${index}.txt`, `quetzal ${index}`)).id)
  await runJobs(['ocr'])
  await Promise.all([app.search.refresh(ids), ...ids.map((id) => remove(asAda, id)), app.search.refresh(ids)])
  expect(await app.search.status()).toMatchObject({ documents: 0, missing: 0, extra: 0 })
})

test('412 PRECONDITION_FAILED for DELETE with If-Match after a change, 204 with the ETag of now, also from the trash', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const etagOf = async () => (await asAda.send('GET', `/api/documents/${id}`)).headers.get('etag') ?? ''
  const deleteIf = (etag: string, query = '') =>
    statusOf(asAda.send('DELETE', `/api/documents/${id}${query}`, undefined, { 'if-match': etag }))
  const old = await etagOf()
  await asAda.documents.update(id, { title: 'in use' })
  const changed = [412, 'PRECONDITION_FAILED']
  expect([await deleteIf(old), await deleteIf(old, '?permanent=true')]).toEqual([changed, changed])
  const live = await etagOf()
  expect(await deleteIf(live)).toBe(204)
  expect(await deleteIf(live, '?permanent=true')).toEqual(changed)
  expect(await deleteIf(await etagOf(), '?permanent=true')).toBe(204)
})
