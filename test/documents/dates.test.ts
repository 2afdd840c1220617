import { expect, test } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { dateOldDocuments } from '../../src/documents/dates.ts'
import { startApp, upload } from '../support/app.ts'

const dateOf = async (client: Client, id: string) => {
  const { document_date, date_source } = await client.documents.get(id)
  return [document_date, date_source]
}

/** Returns a one-page PDF without text. */
const pdf = (created: string) =>
  `%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 10 10]>>endobj
4 0 obj<</CreationDate(${created})>>endobj
trailer<</Root 1 0 R/Info 4 0 R>>`

const mail = (date: string) => `From: a@example.org\nTo: b@example.org\nSubject: Hello\nDate: ${date}\n\nBerlin, den 1. Mai 2020\n`
const letter = 'Berlin, den 3. März 2024\n\nSehr geehrte Damen und Herren,\n'

test('the date is that of the user, else of the file in its time zone, else of the text; never in the future', async () => {
  const { asAda, runJobs } = await startApp()
  const options = { ocr_enabled: false }
  const ids = {
    ofUser: (await upload(asAda, 'a.eml', mail('Sun, 3 Mar 2024 23:30:00 -0800'), { ...options, document_date: '1999-12-31' })).id,
    ofMail: (await upload(asAda, 'b.eml', mail('Sun, 3 Mar 2024 23:30:00 -0800'), options)).id,
    ofText: (await upload(asAda, 'c.txt', letter, options)).id,
    ofPdf: (await upload(asAda, 'd.pdf', pdf("D:20240229003000+13'00'"), options)).id,
    unset: (await upload(asAda, 'e.pdf', pdf('D:19700101000000Z'), options)).id,
    future: (await upload(asAda, 'f.eml', mail('Sun, 3 Mar 2999 23:30:00 +0000').replace('Berlin', ''), options)).id,
    none: (await upload(asAda, 'g.txt', 'nothing', options)).id,
  }
  expect(await dateOf(asAda, ids.ofUser)).toEqual(['1999-12-31', 'user'])
  await runJobs()
  const found = Object.fromEntries(await Promise.all(Object.entries(ids).map(async ([name, id]) => [name, await dateOf(asAda, id)])))
  expect(found).toEqual({
    ofUser: ['1999-12-31', 'user'],
    ofMail: ['2024-03-03', 'metadata'],
    ofText: ['2024-03-03', 'text'],
    ofPdf: ['2024-02-29', 'metadata'],
    unset: [null, null],
    future: ['2020-05-01', 'text'],
    none: [null, null],
  })
  const { date_confidence } = await asAda.documents.get(ids.ofText)
  expect(date_confidence).toBeGreaterThan(0.7)
  expect((await asAda.search.query('date:2024')).total).toBe(3)
})

test('the language of a document, detected or chosen, decides the names of months in its date', async () => {
  const { asAda, runJobs } = await startApp()
  const texts = {
    pol: 'Kraków, 3 listopada 2024 r.\n\nSzanowni Państwo, w załączeniu przesyłamy umowę najmu lokalu mieszkalnego przy ulicy Długiej.\n',
    hrv: 'Zagreb, 3. listopada 2024.\n\nPoštovani, u prilogu Vam dostavljamo ugovor o najmu stana koji smo dogovorili prošlog tjedna.\n',
    hun: 'Budapest, 2024. november 3.\n\nTisztelt Hölgyem, mellékelten küldjük a lakás bérleti szerződését, ahogyan megbeszéltük.\n',
    jpn: '2024年11月3日\n\n拝啓、先日ご相談いたしましたマンションの賃貸契約書を同封いたしますので、ご確認ください。\n',
  }
  const detected = await Promise.all(Object.values(texts).map((text) => upload(asAda, 'a.txt', text, { ocr_enabled: false })))
  const chosen = await upload(asAda, 'b.txt', '3 listopada 2024', { ocr_enabled: false, language: 'eng' })
  await runJobs()
  expect(await Promise.all(detected.map(({ id }) => dateOf(asAda, id)))).toEqual([
    ['2024-11-03', 'text'],
    ['2024-10-03', 'text'],
    ['2024-11-03', 'text'],
    ['2024-11-03', 'text'],
  ])
  expect(await dateOf(asAda, chosen.id)).toEqual([null, null])
})

test('a date set by the user stays after another extraction, also null; 400 VALIDATION_ERROR for an invalid date', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', letter, { ocr_enabled: false })
  await runJobs()
  const { etag } = await asAda.documents.getWithEtag(id)
  expect(await asAda.documents.update(id, { document_date: '2021-02-28' }, { etag })).toMatchObject({
    document_date: '2021-02-28',
    date_source: 'user',
    date_confidence: null,
  })
  await asAda.documents.retryOcr(id)
  await runJobs()
  expect(await dateOf(asAda, id)).toEqual(['2021-02-28', 'user'])
  expect((await asAda.search.query('date:2021-02')).total).toBe(1)
  await asAda.documents.update(id, { document_date: null })
  await asAda.documents.retryOcr(id)
  await runJobs()
  expect(await dateOf(asAda, id)).toEqual([null, 'user'])
  for (const document_date of ['2021-02-29', '2021', '03.03.2021', '0000-01-01', '2021-02-28T00:00:00Z', 5, ''])
    expect((await asAda.send('PUT', `/api/documents/${id}`, { document_date })).status).toBe(400)
})

test('a document that is sent back as it was read, also before its date was found, keeps the source of its date', async () => {
  const { asAda, runJobs } = await startApp()
  const pending = await upload(asAda, 'a.txt', letter, { ocr_enabled: false })
  await asAda.call('PUT', `/api/documents/${pending.id}`, { ...pending, title: 'first' })
  await runJobs()
  await asAda.call('PUT', `/api/documents/${pending.id}`, { ...pending, title: 'second' })
  const found = await asAda.documents.get(pending.id)
  expect(found).toMatchObject({ title: 'second', document_date: '2024-03-03', date_source: 'text' })
  await asAda.call('PUT', `/api/documents/${pending.id}`, { ...found, title: 'third' })
  expect(await dateOf(asAda, pending.id)).toEqual(['2024-03-03', 'text'])
  await asAda.call('PUT', `/api/documents/${pending.id}`, { ...found, document_date: null })
  expect(await dateOf(asAda, pending.id)).toEqual([null, 'user'])
})

test('lists: filter, sort with documents without a date last, facets by year over all pages', async () => {
  const { asAda, asBob } = await startApp()
  for (const [title, document_date] of [['a', '2024-02-29'], ['b', '2023-12-31'], ['c', '2024-12-31'], ['d']] as const)
    await upload(asAda, `${title}.txt`, title, { ocr_enabled: false, document_date })
  type Answer = {
    data: { title: string }[]
    facets?: { years: Record<string, number> }
    pagination: { next_cursor: string | null; total: number }
  }
  const ask = (query: string, client = asAda) => client.call<Answer>('GET', `/api/documents?${query}`)
  const titles = async (query: string) => (await ask(query)).data.map(({ title }) => title).join('')
  expect(await titles('sort=document_date')).toBe('cabd')
  expect(await titles('sort=document_date&order=asc')).toBe('dbac')
  expect(await titles('document_date_from=2024-02-29&document_date_to=2024-02-29')).toBe('a')
  expect(await titles('document_date_from=2024-01-01&sort=title&order=asc')).toBe('ac')
  expect(await titles('document_date_to=2024-02-28')).toBe('b')
  let walked = ''
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Answer = await ask(`sort=document_date&per_page=1${cursor === '' ? '' : `&cursor=${cursor}`}`)
    walked += page.data[0]?.title
    cursor = page.pagination.next_cursor
  }
  expect(walked).toBe('cabd')
  expect((await ask('facets=years&per_page=1&fields=id')).facets).toEqual({ years: { 2023: 1, 2024: 2 } })
  expect((await ask('facets=years&document_date_to=2024-03-01')).facets).toEqual({ years: { 2023: 1, 2024: 1 } })
  expect((await ask('facets=years', asBob)).facets).toEqual({ years: {} })
  expect((await ask('')).facets).toBe(undefined)
  expect((await asAda.send('GET', '/api/documents?document_date_from=2024')).status).toBe(400)
  expect((await asAda.send('GET', '/api/documents?facets=months')).status).toBe(400)
})

test('documents of earlier versions get dates from stored metadata and text once, and are found by them', async () => {
  const { app, asAda, runJobs } = await startApp()
  const options = { ocr_enabled: false }
  const text = await upload(asAda, 'a.txt', letter, options)
  const file = await upload(asAda, 'b.pdf', pdf('D:20230405120000Z'), options)
  const ofUser = await upload(asAda, 'c.txt', letter, options)
  const plain = await upload(asAda, 'd.txt', 'nothing', options)
  await runJobs()
  await asAda.documents.update(ofUser.id, { document_date: null })
  await app.db.updateTable('documents').set({ date_checked: false }).execute()
  const undated = { document_date: null, date_source: null, date_confidence: null }
  await app.db.updateTable('documents').set(undated).where('id', '<>', ofUser.id).execute()
  const before = await asAda.documents.getWithEtag(text.id)
  await Promise.all([dateOldDocuments(app), dateOldDocuments(app)])
  await dateOldDocuments(app)
  await runJobs()
  const dates = await Promise.all([text, file, ofUser, plain].map(({ id }) => dateOf(asAda, id)))
  expect(dates).toEqual([
    ['2024-03-03', 'text'],
    ['2023-04-05', 'metadata'],
    [null, 'user'],
    [null, null],
  ])
  const after = await asAda.documents.getWithEtag(text.id)
  expect(after.etag).not.toBe(before.etag)
  expect(after.document.updated_at).toBe(before.document.updated_at)
  expect((await asAda.search.query('date:2024-03')).results.map(({ document_id }) => document_id)).toEqual([text.id])
  const { rows } = { rows: await app.db.selectFrom('documents').select('id').where('date_checked', '=', false).execute() }
  expect(rows).toEqual([])
})
