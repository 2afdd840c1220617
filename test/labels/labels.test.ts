import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import { startApp, upload } from '../support/app.ts'

interface Label {
  id: string
  name: string
  color: string
  description: string
  document_count: number
  created_by: string
  created_at: string
  updated_at: string
}

/** Adds labels of nobody. Returns their ids. */
async function addLabels({ db }: App, count: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    insert into labels (name, name_key, color) select n, n, '#000000' from generate_series(1, ${count}) n returning id`.execute(db)
  return rows.map(({ id }) => id)
}

const unknown = '01890a5d-ac96-774b-bcce-b302099a8057'

describe('labels', () => {
  test('201 with all fields, visible to everybody', async () => {
    const { asAda, asBob } = await startApp()
    const label = await asAda.call<Label>('POST', '/api/labels', { name: ' Invoices ', color: '#Ff8800' })
    expect(label).toMatchObject({ name: 'Invoices', color: '#Ff8800', description: '', document_count: 0, created_by: 'ada' })
    expect(label.updated_at).toBe(label.created_at)
    expect(await asBob.call('GET', '/api/labels')).toMatchObject({ labels: [{ id: label.id, name: 'Invoices' }] })
  })

  test.each([
    [{ color: '#112233' }, 'name'],
    [{ name: '  ', color: '#112233' }, 'name'],
    [{ name: 'tax, 2026', color: '#112233' }, 'name'],
    [{ name: 'tax\n2026', color: '#112233' }, 'name'],
    [{ name: 'x', color: 'red;background:url(javascript:1)' }, 'color'],
    [{ name: 'x', color: '#1122333' }, 'color'],
    [{ name: 'x', color: '#112233', description: 'x'.repeat(501) }, 'description'],
  ])('400 VALIDATION_ERROR for %o', async (body, path) => {
    const { asAda } = await startApp()
    await expect(asAda.call('POST', '/api/labels', body)).rejects.toMatchObject({
      status: 400,
      code: 'VALIDATION_ERROR',
      details: { issues: [{ path }] },
    })
  })

  test('409 DUPLICATE_RESOURCE for a name that differs in case only, also for ten requests at once', async () => {
    const { asAda, asBob } = await startApp()
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        (i % 2 ? asAda : asBob).send('POST', '/api/labels', { name: i % 2 ? 'Tax' : 'TAX', color: '#000000' }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(409)])
    const other = await asAda.call<Label>('POST', '/api/labels', { name: 'other', color: '#000000' })
    await expect(asAda.call('PUT', `/api/labels/${other.id}`, { name: 'tAx' })).rejects.toMatchObject({
      status: 409,
      code: 'DUPLICATE_RESOURCE',
    })
    await asAda.labels.create({ name: 'Caf\u00e9', color: '#000000' })
    await expect(asAda.labels.create({ name: 'CAFE\u0301', color: '#000000' })).rejects.toMatchObject({ code: 'DUPLICATE_RESOURCE' })
  })

  test('a label of 1.0.0-rc.1 with a comma works until it is renamed; no label gets a comma', async () => {
    const { app, ada, asAda } = await startApp()
    const row = { name: 'a, b', name_key: 'a, b', color: '#112233', created_by: ada.id }
    const { id } = await app.db.insertInto('labels').values(row).returning('id').executeTakeFirstOrThrow()
    const document = await upload(asAda, 'a.txt', 'a', { labels: id })
    expect(document.labels).toEqual(['a, b'])
    expect(await asAda.labels.update(id, { name: 'a, b', color: '#445566' })).toMatchObject({ name: 'a, b', color: '#445566' })
    await expect(asAda.labels.update(id, { name: 'a,b' })).rejects.toMatchObject({
      details: { issues: [{ path: 'name', message: 'must not contain a comma, which separates labels' }] },
    })
    expect(await asAda.labels.update(id, { name: 'ab' })).toMatchObject({ name: 'ab', document_count: 1 })
    await asAda.labels.delete(id)
  })

  test('403 FORBIDDEN for changing or deleting a label of another user; 200 for admins', async () => {
    const { asAda, asBob, asAdmin } = await startApp()
    const { id } = await asAda.call<Label>('POST', '/api/labels', { name: 'mine', color: '#000000' })
    await expect(asBob.call('PUT', `/api/labels/${id}`, { name: 'ours' })).rejects.toMatchObject({ status: 403, code: 'FORBIDDEN' })
    await expect(asBob.call('DELETE', `/api/labels/${id}`)).rejects.toMatchObject({ status: 403, code: 'FORBIDDEN' })
    expect(await asAdmin.call('PUT', `/api/labels/${id}`, { description: 'checked' })).toMatchObject({
      name: 'mine',
      description: 'checked',
    })
    expect((await asAdmin.send('DELETE', `/api/labels/${id}`)).status).toBe(204)
    await expect(asAda.call('PUT', `/api/labels/${id}`, {})).rejects.toMatchObject({ status: 404, code: 'LABEL_NOT_FOUND' })
  })

  test.each(['PUT', 'DELETE'])('404 LABEL_NOT_FOUND for %s of an unknown id', async (method) => {
    const { asAda } = await startApp()
    for (const id of [unknown, 'nonsense'])
      expect((await asAda.send(method, `/api/labels/${id}`, method === 'PUT' ? {} : undefined)).status).toBe(404)
  })
})

describe('labels on documents', () => {
  test('assign and unassign return the number of changes; counts are of documents that the user may see', async () => {
    const { asAda, asBob, asAdmin } = await startApp()
    const { id } = await asAda.call<Label>('POST', '/api/labels', { name: 'tax', color: '#000000' })
    const [mine, theirs] = [await upload(asAda, 'a.txt', 'apples'), await upload(asBob, 'b.txt', 'pears')]
    expect(await asAda.call('POST', `/api/labels/${id}/assign`, { document_ids: [mine.id, mine.id] })).toMatchObject({ assigned: 1 })
    expect(await asAda.call('POST', `/api/labels/${id}/assign`, { document_ids: [mine.id] })).toMatchObject({ assigned: 0 })
    await asBob.call('POST', `/api/labels/${id}/assign`, { document_ids: [theirs.id] })
    const counts = await Promise.all(
      [asAda, asBob, asAdmin].map(async (who) => (await who.call<{ labels: Label[] }>('GET', '/api/labels')).labels[0]?.document_count),
    )
    expect(counts).toEqual([1, 1, 2])
    expect(await asAda.documents.get(mine.id)).toMatchObject({ labels: ['tax'], label_ids: [id] })
    expect(await asAda.call('POST', `/api/labels/${id}/unassign`, { document_ids: [mine.id] })).toMatchObject({ assigned: 1 })
    expect((await asAda.documents.get(mine.id)).labels).toEqual([])
  })

  test('/api/labels/documents/{id} lists and replaces the labels of a document; 400 names each unknown one, 404 for a document of another user', async () => {
    const { asAda, asBob } = await startApp()
    const { id } = await upload(asAda, 'a.txt', 'apples')
    const path = `/api/labels/documents/${id}`
    const [tax, cafe] = await Promise.all(['tax', 'Caf\u00e9'].map((name) => asAda.labels.create({ name, color: '#000000' })))
    expect(await asAda.call('GET', path)).toEqual({ labels: [] })
    const { labels } = await asAda.call<{ labels: Label[] }>('PUT', path, { label_ids: [tax?.id, 'CAFE\u0301'] })
    expect(labels).toMatchObject([{ ...cafe, document_count: 1 }, { id: tax?.id }])
    expect(await asAda.call('GET', path)).toEqual({ labels })
    await expect(asAda.call('PUT', path, { label_ids: [tax?.id, 'none', unknown] })).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: {
        issues: [
          { path: 'label_ids', message: 'no label "none"' },
          { path: 'label_ids', message: `no label "${unknown}"` },
        ],
      },
    })
    expect(await asAda.documents.get(id)).toMatchObject({ labels: ['Caf\u00e9', 'tax'] })
    for (const method of ['GET', 'PUT']) {
      const answer = await asBob.send(method, path, method === 'PUT' ? { label_ids: ['none'] } : undefined)
      expect([answer.status, await answer.json()]).toMatchObject([404, { error: { code: 'DOCUMENT_NOT_FOUND' } }])
    }
    expect(await asAda.call('PUT', path, { label_ids: [] })).toEqual({ labels: [] })
  })

  test('404 DOCUMENT_NOT_FOUND for an unknown document or one of another user, and no document gets the label', async () => {
    const { asAda, asBob } = await startApp()
    const { id } = await asAda.call<Label>('POST', '/api/labels', { name: 'tax', color: '#000000' })
    const [mine, theirs] = [await upload(asAda, 'a.txt', 'apples'), await upload(asBob, 'b.txt', 'pears')]
    for (const other of [theirs.id, unknown, 'nonsense'])
      await expect(asAda.call('POST', `/api/labels/${id}/assign`, { document_ids: [mine.id, other] })).rejects.toMatchObject({
        status: 404,
        code: 'DOCUMENT_NOT_FOUND',
        message: `The document ${other} does not exist.`,
        details: { document_id: other },
      })
    expect((await asAda.documents.get(mine.id)).labels).toEqual([])
  })

  test('409 CONFLICT for more than 1,000 labels on a document, and none of the documents gets the label', async () => {
    const { app, asAda } = await startApp()
    const full = await upload(asAda, 'a.txt', 'apples', { labels: (await addLabels(app, 1000)).join() })
    const other = await upload(asAda, 'b.txt', 'pears')
    const { id } = await asAda.labels.create({ name: 'tax', color: '#000000' })
    await expect(asAda.labels.assign(id, [other.id, full.id])).rejects.toMatchObject({
      status: 409,
      code: 'CONFLICT',
      details: { document_id: full.id },
    })
    expect((await asAda.documents.get(other.id)).labels).toEqual([])
    await asAda.labels.unassign(full.label_ids[0] ?? '', [full.id])
    await asAda.labels.assign(id, [other.id, full.id])
  })

  test('204 for a label whose removal from all of its documents takes longer than database.statement_timeout', async () => {
    const { app, asAda } = await startApp({ 'database.statement_timeout': '2s' })
    const { id } = await asAda.labels.create({ name: 'Tax', color: '#000000' })
    await upload(asAda, 'a.txt', 'a', { labels: id, ocr_enabled: false })
    await sql`
      create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(2.2); return old; end $$`.execute(app.db)
    await sql`create trigger slow before delete on document_labels for each row execute function slow()`.execute(app.db)
    expect((await asAda.send('DELETE', `/api/labels/${id}`)).status).toBe(204)
  })

  test('a document is found by its label, by the new name after a rename, and no longer after its deletion', async () => {
    const { asAda, runJobs } = await startApp()
    const { id } = await asAda.call<Label>('POST', '/api/labels', { name: 'quokka', color: '#000000' })
    const document = await upload(asAda, 'a.txt', 'apples', { labels: 'Quokka' })
    const found = async (word: string) => {
      await runJobs()
      return (await asAda.call<{ results: { document_id: string }[] }>('GET', `/api/search?q=${word}`)).results.map(
        ({ document_id }) => document_id,
      )
    }
    expect(await found('quokka')).toEqual([document.id])
    await asAda.call('PUT', `/api/labels/${id}`, { name: 'wombat' })
    expect([await found('quokka'), await found('wombat')]).toEqual([[], [document.id]])
    await asAda.call('DELETE', `/api/labels/${id}`)
    expect(await found('wombat')).toEqual([])
  })
})
