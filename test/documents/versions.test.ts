import { hash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { down, up } from '../../migrations/0031_page_texts.ts'
import type { Client } from '../../src/client/client.ts'
import { startApp, upload } from '../support/app.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { replace } from '../support/data/versions.ts'
import { storeFiles } from '../support/servers/server.ts'

const none = '0198f000-0000-7000-8000-000000000000'
const file = (filename: string, bytes: string) => ({ filename, size: Buffer.byteLength(bytes), open: () => [Buffer.from(bytes)] })
const textOf = async (response: Promise<Response>) => (await response).text()
const refusal = async (work: Promise<unknown>) =>
  work.then(
    () => 'nothing',
    ({ status, code }: { status: number; code: string }) => `${status} ${code}`,
  )
const numbers = async (client: Client, id: string) =>
  (await client.documents.versions(id)).map(({ number, current }) => (current ? `${number} current` : `${number}`))

test('201 replace: the document shows the new file, and keeps title, labels, comments, links and the old version', async () => {
  const { app, asAda, asStranger, ada, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the first apple', { title: 'Mine' })
  await runJobs()
  const comment = await asAda.comments.create(id, { content: 'read this' })
  const { token } = await asAda.sharedLinks.create({ document_id: id })
  const { document, version, created } = await asAda.documents.replace(id, file('b.txt', 'the second pear'))
  expect(created).toBe(true)
  expect(version).toMatchObject({
    ...{ number: 2, filename: 'b.txt', size: 15, mime_type: 'text/plain', origin: 'upload', created_by: ada.id, current: true },
    sha256: document.sha256,
  })
  expect(document).toMatchObject({ id, title: 'Mine', filename: 'b.txt', version: 2, status: 'pending', content: '', page_count: null })
  await runJobs()
  expect(await asAda.documents.text(id)).toBe('the second pear')
  expect((await asAda.search.query('pear')).results).toHaveLength(1)
  expect((await asAda.search.query('apple')).results).toEqual([])
  expect((await asAda.comments.list(id)).comments).toMatchObject([{ id: comment.id }])
  expect(await textOf(asStranger.publicLinks.download(token))).toBe('the second pear')
  // The old file and its text
  expect(await numbers(asAda, id)).toEqual(['2 current', '1'])
  expect(await textOf(asAda.documents.downloadVersion(id, 1))).toBe('the first apple')
  expect(await asAda.documents.versionText(id, 1)).toBe('the first apple')
  expect(await asAda.documents.versionText(id, 2)).toBe('the second pear')
  const viewed = await asAda.send('GET', `/api/documents/${id}/versions/1/view`)
  expect(viewed.headers.get('content-disposition')).toBe('inline; filename=a.txt')
  const { rows } = await sql`select type from events where type = 'version_added'`.execute(app.db)
  expect(rows).toHaveLength(1)
})

test('200 replace with the bytes of the current version: nothing changes, and damaged bytes are repaired', async () => {
  const { asAda, dataDir } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the same')
  const before = await asAda.documents.getWithEtag(id)
  const { created, version } = await asAda.documents.replace(id, file('other name.txt', 'the same'))
  expect([created, version.number, version.filename]).toEqual([false, 1, 'a.txt'])
  expect(await asAda.documents.getWithEtag(id)).toEqual(before)
  expect((await storeFiles(dataDir)).named).toHaveLength(1)
})

test('412 PRECONDITION_FAILED for restore and DELETE of a version, and PUT of labels, with the ETag of an earlier state', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'one')
  const { etag: old } = await asAda.documents.getWithEtag(id)
  await asAda.documents.replace(id, file('a.txt', 'two'))
  const changes = [
    ['POST', `/api/documents/${id}/versions/1/restore`, undefined, 201],
    ['DELETE', `/api/documents/${id}/versions/1`, undefined, 204],
    ['PUT', `/api/labels/documents/${id}`, { label_ids: [] }, 200],
  ] as const
  for (const [method, path, body, status] of changes) {
    const statusFor = async (etag: string) => (await asAda.send(method, path, body, { 'if-match': etag })).status
    expect([path, await statusFor(old)]).toEqual([path, 412])
    expect([path, await statusFor((await asAda.documents.getWithEtag(id)).etag ?? '')]).toEqual([path, status])
  }
  expect(await numbers(asAda, id)).toEqual(['3 current', '2'])
})

test('412 PRECONDITION_FAILED for the ETag of an earlier state; 400 for an empty file, another field and an unknown language', async () => {
  const { asAda, dataDir } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'one')
  const { etag } = await asAda.documents.getWithEtag(id)
  await asAda.documents.replace(id, file('a.txt', 'two'), { etag })
  expect(await refusal(asAda.documents.replace(id, file('a.txt', 'three'), { etag }))).toBe('412 PRECONDITION_FAILED')
  // Before the body is received.
  expect(await refusal(asAda.documents.replace(id, file('a.txt', ''), { etag }))).toBe('412 PRECONDITION_FAILED')
  expect(await refusal(asAda.documents.replace(id, file('a.txt', '')))).toBe('400 VALIDATION_ERROR')
  expect(await refusal(asAda.documents.replace(id, file('a.txt', 'x'), { language: 'xyz' }))).toBe('400 VALIDATION_ERROR')
  expect(await numbers(asAda, id)).toEqual(['2 current', '1'])
  expect((await storeFiles(dataDir)).staged).toEqual([])
})

test('201 replace without a language, after the model of the document was removed: the default of the server takes its place', async () => {
  const { app, asAda } = await startApp({ 'ocr.default_language': 'eng' })
  const { id } = await upload(asAda, 'a.txt', 'one', { language: 'deu' })
  expect((await asAda.documents.replace(id, file('a.txt', 'two'))).document.language).toBe('deu')
  await app.db.updateTable('documents').set({ language: 'tlh' }).execute()
  expect((await asAda.documents.replace(id, file('a.txt', 'three'))).document.language).toBe('eng')
})

test('404 for documents of others, unknown documents and versions, on every route of versions', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'one')
  await asAda.documents.replace(id, file('a.txt', 'two'))
  const work = (client: Client, id: string, number: number) => [
    client.documents.downloadVersion(id, number),
    client.documents.versionText(id, number),
    client.send('GET', `/api/documents/${id}/versions/${number}/view`).then(async (answer) => {
      if (!answer.ok) throw { status: answer.status, code: ((await answer.json()) as { error: { code: string } }).error.code }
    }),
    client.documents.restore(id, number),
    client.documents.deleteVersion(id, number),
  ]
  for (const [client, which] of [
    [asBob, id],
    [asAda, none],
  ] as const) {
    const all = [...work(client, which, 1), client.documents.versions(which), client.documents.replace(which, file('a.txt', 'x'))]
    expect(new Set(await Promise.all(all.map(refusal)))).toEqual(new Set(['404 DOCUMENT_NOT_FOUND']))
  }
  for (const number of [0, 3, -1, 1.5, 1e12, Number.NaN])
    expect([number, ...new Set(await Promise.all(work(asAda, id, number).map(refusal)))]).toEqual([number, '404 VERSION_NOT_FOUND'])
  expect(await numbers(asAdmin, id)).toEqual(['2 current', '1'])
})

test('200 pages and matches of a document with one page, whose text is stored once, before and after the migration of a downgrade', async () => {
  const { app, asAda, runJobs } = await startApp()
  const text = `the first apple ${'and another word '.repeat(5_000)} the last pear`
  const { id } = await upload(asAda, 'a.txt', text)
  await runJobs()
  const expectText = async (stored: string | null) => {
    expect(await app.db.selectFrom('document_pages').select('text').where('document_id', '=', id).execute()).toEqual([{ text: stored }])
    const [page, ...others] = await asAda.documents.pages(id)
    expect([page?.text === text, others]).toEqual([true, []])
    expect((await asAda.search.matches(id, { q: 'pear' })).pages.map(({ matches }) => matches.length)).toEqual([1])
  }
  await expectText(null)
  await down(app.db as Kysely<unknown>)
  await expectText(text)
  await up(app.db as Kysely<unknown>)
  await expectText(text)
})

test('201 restore: a new version with the old bytes, text and pages, without reading them again; 200 if nothing changes', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the first apple')
  await runJobs()
  const pages = await asAda.documents.pages(id)
  await asAda.documents.replace(id, file('b.txt', 'the second pear'))
  await runJobs()
  const { version, document, created } = await asAda.documents.restore(id, 1)
  expect(created).toBe(true)
  expect(version).toMatchObject({ number: 3, origin: 'restore', filename: 'a.txt', current: true })
  expect(document).toMatchObject({ version: 3, status: 'completed', content: 'the first apple', filename: 'a.txt' })
  expect(await asAda.documents.pages(id)).toEqual(pages)
  const { rows } = await sql`select kind from jobs where document_id = ${id} and status = 'pending' and kind in ('ocr', 'extract')`.execute(
    app.db,
  )
  expect(rows).toEqual([])
  await runJobs()
  expect((await asAda.search.query('apple')).results).toHaveLength(1)
  expect(await asAda.documents.versionText(id, 2)).toBe('the second pear')
  expect((await asAda.documents.restore(id, 1)).created).toBe(false)
  expect((await asAda.documents.restore(id, 3)).created).toBe(false)
  expect(await numbers(asAda, id)).toEqual(['3 current', '2', '1'])
})

test('a version that was replaced before it was read is read after its restore', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the first apple')
  await asAda.documents.replace(id, file('b.txt', 'the second pear'))
  await runJobs()
  expect(await asAda.documents.versionText(id, 1)).toBe('')
  expect((await asAda.documents.restore(id, 1)).document.status).toBe('pending')
  await runJobs()
  expect(await asAda.documents.text(id)).toBe('the first apple')
})

test('204 DELETE a version: its bytes go, numbers are never given twice; 409 CONFLICT for the only one', async () => {
  const { app, asAda, runJobs, dataDir } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'one')
  expect(await refusal(asAda.documents.deleteVersion(id, 1))).toBe('409 CONFLICT')
  await runJobs()
  await asAda.documents.replace(id, file('a.txt', 'two'))
  await asAda.documents.replace(id, file('a.txt', 'three'))
  await runJobs()
  await asAda.documents.deleteVersion(id, 2)
  expect(await numbers(asAda, id)).toEqual(['3 current', '1'])
  // Without the current version, the newest of the others is current again.
  await asAda.documents.deleteVersion(id, 3)
  expect(await numbers(asAda, id)).toEqual(['1 current'])
  expect(await asAda.documents.get(id)).toMatchObject({ version: 1, content: 'one', status: 'completed' })
  expect(await refusal(asAda.documents.deleteVersion(id, 1))).toBe('409 CONFLICT')
  await runJobs()
  expect((await storeFiles(dataDir)).named).toHaveLength(1)
  await asAda.documents.replace(id, file('a.txt', 'four'))
  expect(await numbers(asAda, id)).toEqual(['4 current', '1'])
  const { rows } = await sql`select from document_versions where number = 4 and content is not null`.execute(app.db)
  expect(rows).toEqual([])
})

test('204 DELETE a version: the audit log keeps its number, checksum and size, and the reason version_deleted', async () => {
  const { app, asAda, ada } = await startApp()
  const { id, sha256, size } = await upload(asAda, 'a.txt', 'one', { title: 'Mine' })
  await asAda.documents.replace(id, file('a.txt', 'two'))
  await asAda.documents.deleteVersion(id, 1)
  const entries = await app.db.selectFrom('audit_entries').selectAll().where('action', '=', 'purge versions').execute()
  expect(entries).toMatchObject([{ actor_id: ada.id, actor: 'ada', target: `id=${id}`, outcome: 'ok' }])
  expect(JSON.parse(entries[0]?.details ?? '')).toEqual({
    reason: 'version_deleted',
    title_sha256: hash('sha256', 'Mine'),
    versions: [{ number: 1, sha256, size }],
  })
})

test('bytes stay while any version of any document uses them', async () => {
  const { asAda, asBob, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'shared')
  const other = await upload(asBob, 'b.txt', 'shared')
  await asBob.documents.replace(other.id, file('b.txt', 'changed'))
  await asAda.documents.replace(id, file('a.txt', 'changed too'))
  await asAda.documents.deleteVersion(id, 1)
  await runJobs()
  expect(await textOf(asBob.documents.downloadVersion(other.id, 1))).toBe('shared')
})

test('ten clients replace and restore at once: each gets its own number, and every version has its bytes', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'start')
  const texts = Array.from({ length: 10 }, (_, index) => `text ${index}`)
  const stored = await Promise.all([
    ...texts.map((text) => asAda.documents.replace(id, file('a.txt', text))),
    ...texts.map(() => asAda.documents.restore(id, 1)),
  ])
  const created = stored.filter(({ created }) => created).map(({ version }) => version.number)
  expect(new Set(created).size).toBe(created.length)
  const versions = await asAda.documents.versions(id)
  expect(versions.map(({ number }) => number)).toEqual(Array.from({ length: versions.length }, (_, index) => versions.length - index))
  expect(versions.filter(({ current }) => current)).toHaveLength(1)
  const bytes = await Promise.all(versions.map(({ number }) => textOf(asAda.documents.downloadVersion(id, number))))
  expect(new Set(bytes)).toEqual(new Set(['start', ...texts]))
})

test('a long text of an old version is streamed completely', async () => {
  const { asAda, runJobs } = await startApp()
  const long = 'längere Zeilen ohne Ende\n'.repeat(40_000).trim()
  const { id } = await upload(asAda, 'a.txt', long)
  await runJobs()
  await asAda.documents.replace(id, file('a.txt', 'short'))
  expect(await asAda.documents.versionText(id, 1)).toBe(long)
})

const letter = 'Berlin, 3 March 2024\n\nDear Ada,\n'
const byBob = () => pdf({ pages: [{ text: ['one'] }, { text: ['two'] }], info: { Author: 'Bob', CreationDate: 'D:20250501120000Z' } })

test('restore and delete of a version bring back its date and metadata at once; what users set stays', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', letter, { metadata: { room: '12' } })
  await runJobs()
  const first = await asAda.documents.get(id)
  expect(first).toMatchObject({ document_date: '2024-03-03', date_source: 'text' })
  await replace(asAda, id, 'b.pdf', byBob())
  expect(await asAda.documents.get(id)).toMatchObject({ document_date: null, metadata: { room: '12' } })
  await runJobs()
  expect(await asAda.documents.get(id)).toMatchObject({
    ...{ document_date: '2025-05-01', date_source: 'metadata', metadata: { author: 'Bob', page_count: 2, room: '12' } },
  })
  await asAda.documents.update(id, { metadata: { author: 'Cy' } })
  const { document } = await asAda.documents.restore(id, 1)
  const { document_date, date_source, date_confidence } = first
  expect(document).toMatchObject({ document_date, date_source, date_confidence })
  expect(document.metadata).toEqual({ ...first.metadata, author: 'Cy', room: '12' })
  await asAda.documents.deleteVersion(id, 3)
  expect(await asAda.documents.get(id)).toMatchObject({
    document_date: '2025-05-01',
    metadata: { author: 'Cy', page_count: 2, room: '12' },
  })
  await asAda.documents.update(id, { document_date: '2020-01-01' })
  const { document: dated } = await asAda.documents.restore(id, 1)
  expect(dated).toMatchObject({ document_date: '2020-01-01', date_source: 'user', date_confidence: null })
})

test('replaced again: nothing of the metadata of the first file is left', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'b.pdf', byBob())
  await runJobs()
  await replace(asAda, id, 'c.pdf', pdf({ pages: [{ text: ['three'] }] }))
  await runJobs()
  const { metadata, page_count } = await asAda.documents.get(id)
  expect([page_count, metadata.page_count, metadata.author, metadata.created]).toEqual([1, 1, undefined, undefined])
})

test('a duplicate of a document whose file was replaced has no duplicate_of, and another ETag, until the file is restored', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the same')
  const { id: copy } = await upload(asAda, 'b.txt', 'the same')
  const before = await asAda.documents.getWithEtag(copy)
  expect(before.document.duplicate_of).toBe(id)
  await replace(asAda, id, 'a.txt', 'another')
  const after = await asAda.documents.getWithEtag(copy)
  expect([after.document.duplicate_of, after.etag === before.etag]).toEqual([null, false])
  await asAda.documents.restore(id, 1)
  expect(await asAda.documents.getWithEtag(copy)).toEqual(before)
})

test('the ETag of a part changes when the document from which it was split is destroyed', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'the stack')
  const { id: part } = await upload(asAda, 'b.txt', 'a part')
  await app.db.updateTable('documents').set({ split_from: id }).where('id', '=', part).execute()
  const before = await asAda.documents.getWithEtag(part)
  await asAda.documents.delete(id, { permanent: true })
  const after = await asAda.documents.getWithEtag(part)
  expect([before.document.split_from, after.document.split_from, after.etag === before.etag]).toEqual([id, null, false])
})

test('deletion of the current version publishes that file, content and status have changed', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'one')
  await replace(asAda, id, 'a.txt', 'two')
  const last = async () => {
    const { rows } = await sql<{ data: { changes: string[] } }>`
      select data from events where type = 'document_updated' order by seq desc limit 1`.execute(app.db)
    return rows[0]?.data.changes
  }
  await asAda.documents.deleteVersion(id, 2)
  expect(await last()).toEqual(['versions', 'file', 'content', 'status'])
  await replace(asAda, id, 'a.txt', 'three')
  await asAda.documents.deleteVersion(id, 1)
  expect(await last()).toEqual(['versions'])
})
