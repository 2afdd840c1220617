import { expect, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'

test('uploads, links, labels and OCR jobs name their documents', async () => {
  const { asAda, asAdmin, asStranger } = await startApp()
  const files = ['a', 'b'].map((name) => ({ filename: `${name}.txt`, size: 1, open: () => [Buffer.from(name)] }))
  const { documents } = await asAda.documents.bulkUpload([...files, { filename: 'empty', size: 0, open: () => [] }])
  const [a = '', b = ''] = documents.map((one) => (one.status === 'uploaded' ? one.id : ''))
  const targets = async (count: number) => (await asAdmin.audit.list({ limit: count })).map(({ target }) => target).reverse()
  expect(await targets(1)).toEqual([`document_id=${a} document_id=${b}`])
  const { id, token } = await asAda.sharedLinks.create({ document_id: a })
  await asStranger.send('POST', `/api/public/shared/${token}/verify`, {})
  await asStranger.send('POST', `/api/public/shared/${token}/view`, {})
  await asAda.sharedLinks.revoke(id)
  const visit = `token=${token.slice(0, 6)}… document_id=${a}`
  expect(await targets(4)).toEqual([`document_id=${a}`, visit, visit, `id=${id} document_id=${a}`])
  const label = await asAda.labels.create({ name: 'x', color: '#112233' })
  await asAda.labels.assign(label.id, [b, a])
  expect(await targets(1)).toEqual([`id=${label.id} document_id=${b} document_id=${a}`])
  const { job_id } = await asAda.documents.retryOcr(a)
  await asAda.send('PUT', `/api/ocr/queue/${job_id}/priority`, { priority: 'low' })
  await asAda.send('DELETE', `/api/ocr/queue/${job_id}`)
  await asAda.send('POST', '/api/ocr/queue/retry', { ids: [job_id] })
  const job = `id=${job_id} document_id=${a}`
  expect(await targets(4)).toEqual([`id=${a}`, job, job, `document_id=${a}`])
})

test('downloads are recorded, except HEAD and 304; with audit.downloads = false none is', async () => {
  for (const isLogged of [true, false]) {
    const { asAda, asBob, asAdmin } = await startApp({ 'audit.downloads': isLogged })
    const { id } = await upload(asAda, 'a.txt', 'a')
    const before = (await asAdmin.audit.list()).length
    const path = `/api/documents/${id}/download`
    const etag = (await asAda.send('GET', path)).headers.get('etag') ?? ''
    await asAda.send('HEAD', path)
    expect((await asAda.send('GET', path, undefined, { 'if-none-match': etag })).status).toBe(304)
    await asAda.send('GET', `/api/documents/${id}/view`)
    expect((await asBob.send('GET', path)).status).toBe(404)
    await (await asAda.send('POST', '/api/documents/batch-get', { ids: [id] })).arrayBuffer()
    const batch = { actor: 'ada', action: 'POST /api/documents/batch-get', target: `document_id=${id}` }
    const entries = (await asAdmin.audit.list()).slice(0, -before)
    const expected = ['view', 'download'].map((verb) => ({ actor: 'ada', action: `GET /api/documents/:id/${verb}`, target: `id=${id}` }))
    expect(entries).toMatchObject(isLogged ? [batch, ...expected] : [])
  }
})
