import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { parsePeriod } from '../../src/calendar.ts'
import { Busy, withLock } from '../../src/db/lock.ts'
import { runSteps } from '../../src/http/time-slices.ts'
import { growingIndex, openSegment } from '../../src/search/engines/postgres/index/segments.ts'
import { highlighter } from '../../src/search/highlight/highlighter.ts'
import { searchMatches } from '../../src/search/highlight/match-positions.ts'
import { compileMatcher } from '../../src/search/highlight/matcher.ts'
import { parse } from '../../src/search/query/parser.ts'
import { normalizeWord, tokenize } from '../../src/search/query/tokenizer.ts'
import { editDistance, maxTypos, wordParts } from '../../src/search/query/typos.ts'
import { reindex, status } from '../../src/search/reindex.ts'
import type { SearchResults } from '../../src/search/search.ts'
import { startApp, upload } from '../support/app.ts'
import { seeded } from '../support/data/seeded.ts'
import { assign, type Draft, insertDocument, label, searchSuite } from '../support/search-suite.ts'

searchSuite('postgres', async () => {
  const { app, ada, bob } = await startApp({ 'search.engine': 'postgres' })
  return { db: app.db, engine: app.search, ownerId: ada.id, otherOwnerId: bob.id }
})

async function start(settings?: Parameters<typeof startApp>[0]) {
  const all = await startApp(settings)
  const { app, ada, asAda } = all
  const path = (query: Record<string, unknown>) =>
    `/api/search?${new URLSearchParams(
      Object.entries(query).map(([key, value]) => [key, typeof value === 'object' ? JSON.stringify(value) : String(value)]),
    )}`
  return {
    ...all,
    path,
    put: async (draft: Draft) => {
      const id = await insertDocument(app.db, ada.id, draft)
      await app.search.refresh([id])
      return id
    },
    search: (query: Record<string, unknown>, as = asAda) => as.call<SearchResults>('GET', path(query)),
    refused: async (query: Record<string, unknown>) => {
      const response = await asAda.send('GET', path(query))
      return [response.status, ((await response.json()) as { error: { code: string } }).error.code]
    },
  }
}

test('200 with results, facets, pagination and time', async () => {
  const { put, search } = await start()
  const id = await put({ title: 'Lease <draft>', filename: 'lease.txt', content: 'A lease.', labels: ['House'] })
  const { took_ms, ...answer } = await search({ q: 'lease' })
  expect(took_ms).toBeGreaterThan(0)
  expect(answer).toEqual({
    results: [
      {
        document_id: id,
        title: 'Lease <draft>',
        filename: 'lease.txt',
        mime_type: 'text/plain',
        status: 'completed',
        labels: ['House'],
        score: expect.any(Number),
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        document_date: null,
        highlights: [
          { field: 'title', snippet: '<mark>Lease</mark> &lt;draft&gt;' },
          { field: 'content', snippet: 'A <mark>lease</mark>.' },
          { field: 'filename', snippet: '<mark>lease</mark>.txt' },
        ],
      },
    ],
    total: 1,
    total_capped: false,
    facets: { mime_types: { 'text/plain': 1 }, labels: { House: 1 }, years: {} },
    warnings: [],
    pagination: { page: 1, per_page: 20, total: 1, total_pages: 1, has_next: false, has_prev: false },
  })
  expect((await search({ q: 'lease', highlight: false })).results[0]?.highlights).toEqual([])
})

test('400 VALIDATION_ERROR for a query that is missing, blank, or too long', async () => {
  const { refused, search } = await start()
  for (const query of [{}, { q: '' }, { q: '   ' }, { q: 'x'.repeat(1001) }, { q: 'a\0b' }])
    expect(await refused(query)).toEqual([400, 'VALIDATION_ERROR'])
  expect((await search({ q: 'x'.repeat(1000) })).total).toBe(0)
  expect((await search({ q: '𝐱'.repeat(1000) })).total).toBe(0)
  expect((await search({ q: '?!' })).total).toBe(0)
})

test('400 VALIDATION_ERROR for malformed filters, flags and pages', async () => {
  const { refused } = await start()
  const filters = [
    '{',
    '[]',
    'null',
    '"x"',
    { colour: 'red' },
    { mime_types: 'a' },
    { label_ids: ['1'] },
    { status: ['new'] },
    { source_id: "1'--" },
  ]
  const more = [
    { date_range: { from: 'yesterday' } },
    { date_range: { since: '2026-01-01' } },
    { min_confidence: 2 },
    { min_confidence: '1' },
    { owner: '' },
  ]
  for (const one of [...filters, ...more])
    expect(await refused({ q: 'a', filters: one }), JSON.stringify(one)).toEqual([400, 'VALIDATION_ERROR'])
  for (const odd of [{ fuzzy: 'maybe' }, { highlight: '' }, { page: 0 }, { per_page: 101 }, { page: 'x' }])
    expect(await refused({ q: 'a', ...odd })).toEqual([400, 'VALIDATION_ERROR'])
})

test('400 VALIDATION_ERROR with the field filters for malformed JSON, and one issue for a malformed date', async () => {
  const { asAda } = await startApp()
  await expect(asAda.call('GET', '/api/search?q=a&filters={')).rejects.toMatchObject({
    details: { issues: [{ path: 'filters', message: 'not valid JSON' }] },
  })
  for (const from of ['2026-03', '0000-01-01'])
    await expect(asAda.search.query('a', { filters: { document_date: { from } } })).rejects.toMatchObject({
      details: { issues: [{ path: 'filters.document_date.from', message: 'a date such as 2026-03-17' }] },
    })
})

test('400 VALIDATION_ERROR for a page behind the window, 200 and empty for one behind the end', async () => {
  const { put, search, refused } = await start({ 'limits.search_max_results': 5 })
  for (let count = 0; count < 6; count++) await put({ content: 'same' })
  const last = await search({ q: 'same', page: 3, per_page: 2 })
  expect([last.results.length, last.total, last.total_capped, last.pagination.total_pages, last.pagination.has_next]).toEqual([
    1,
    5,
    true,
    3,
    false,
  ])
  expect(await refused({ q: 'same', page: 4, per_page: 2 })).toEqual([400, 'VALIDATION_ERROR'])
  expect((await search({ q: 'absent', page: 2, per_page: 2 })).results).toEqual([])
})

test('filters by names and ids; unknown ones find nothing', async () => {
  const { app, put, search, ada, asAdmin } = await start()
  const id = await put({ title: 'A', content: 'word', labels: ['Tax 2026'], confidence: 0.7, createdAt: new Date('2026-03-31T22:00:00Z') })
  const labelId = await label(app.db, 'Tax 2026')
  const found = async (filters: object, as?: typeof asAdmin) =>
    (await search({ q: 'word', filters }, as)).results.map(({ document_id }) => document_id)
  for (const filters of [
    {},
    { labels: ['tax 2026'] },
    { label_ids: [labelId.toUpperCase()] },
    { labels: [] },
    { date_range: { from: '2026-03-31', to: '2026-03-31' } },
  ])
    expect(await found(filters), JSON.stringify(filters)).toEqual([id])
  for (const filters of [
    { mime_types: ['TEXT/plain'] },
    { min_confidence: 0.7 },
    { status: ['completed'], owner: 'ada' },
    { owner: ada.id },
  ])
    expect(await found(filters), JSON.stringify(filters)).toEqual([id])
  for (const filters of [
    { labels: ['none'] },
    { label_ids: [ada.id] },
    { owner: 'nobody' },
    { date_range: { to: '2026-03-30' } },
    { mime_types: ["x' OR 1=1"] },
  ])
    expect(await found(filters), JSON.stringify(filters)).toEqual([])
  expect(await found({ owner: 'bob' }, asAdmin)).toEqual([])
  expect(await found({ owner: 'ADA' }, asAdmin)).toEqual([id])
})

test('a user never finds a document of another, whatever the filter; an admin finds all; 401 without a token', async () => {
  const { put, search, asBob, asAdmin, asStranger, ada, path } = await start()
  const id = await put({ title: 'Diary', content: 'secret thoughts', labels: ['Private'] })
  for (const filters of [{}, { owner: 'ada' }, { owner: ada.id }, { labels: ['Private'] }, { mime_types: ['text/plain'] }]) {
    for (const q of ['secret', '-nothing', 'sceret', `~o${ada.id} secret`]) {
      const { results, total, facets } = await search({ q, filters, fuzzy: true }, asBob)
      expect({ results, total, facets }).toEqual({ results: [], total: 0, facets: { mime_types: {}, labels: {}, years: {} } })
    }
  }
  expect((await search({ q: 'secret' }, asAdmin)).results.map(({ document_id }) => document_id)).toEqual([id])
  expect((await asStranger.send('GET', path({ q: 'secret' }))).status).toBe(401)
})

test('an upload, a new title and a deletion are searchable after their jobs', async () => {
  const { search, runJobs, asAda } = await start()
  const { id } = await upload(asAda, 'note.txt', 'the quick brown fox')
  await runJobs()
  expect((await search({ q: '"brown fox"' })).total).toBe(1)
  await asAda.call('PUT', `/api/documents/${id}`, { title: 'Reynard' })
  await runJobs()
  expect((await search({ q: 'reynard' })).total).toBe(1)
  await asAda.documents.delete(id)
  expect((await search({ q: 'reynard' })).total).toBe(0)
})

test('reindex writes missing and outdated entries, once at a time, and with ifNeeded only then', async () => {
  const { app, ada, put, search } = await start()
  const missing = await insertDocument(app.db, ada.id, { content: 'word' })
  const stale = await put({ content: 'word' })
  await put({ content: 'word' })
  expect((await search({ q: 'word' })).total).toBe(2)
  const seen: number[] = []
  expect(await reindex(app, { ifNeeded: true, onProgress: (done, total) => seen.push(done, total) })).toEqual({
    documents: 3,
    skipped: false,
    swapped: true,
    omitted: 0,
  })
  expect(seen).toEqual([3, 3])
  expect((await search({ q: 'word' })).total).toBe(3)
  expect(await reindex(app, { ifNeeded: true })).toEqual({ documents: 3, skipped: true, swapped: false, omitted: 0 })
  const [entry] = await app.db.selectFrom('search_entries').select('segment').execute()
  await sql`update ${sql.table(`search_segment_${entry?.segment}`)} set version = 0 where document_id = ${stale}`.execute(app.db)
  expect((await reindex(app, { ifNeeded: true })).skipped).toBe(false)
  await assign(app.db, missing, await label(app.db, 'Late'))
  expect((await reindex(app)).skipped).toBe(false)
  expect((await search({ q: 'late' })).total).toBe(1)
  await withLock(app.database, 'search.reindex', 0, () => expect(reindex(app)).rejects.toThrow(Busy))
  await expect(reindex(app, { signal: AbortSignal.abort() })).rejects.toThrow()
})

test('100 terms over a document of 10 MB take seconds at most', async () => {
  const { app, put, search } = await start()
  const line = Array.from({ length: 5000 }, (_, index) => `term${index} ${(index * 7919).toString(36)}`).join(' ')
  await put({ content: line.repeat(Math.ceil(10_000_000 / line.length)) })
  const q = Array.from({ length: 100 }, (_, index) => `term${index * 40}`).join(' ')
  for (const fuzzy of [false, true]) {
    const { total, took_ms } = await search({ q, fuzzy })
    expect(total).toBe(1)
    expect(took_ms).toBeLessThan(5000)
  }
  await expect(app.search.check()).resolves.toBeUndefined()
})

test('a part of a code is found in a document with more distinct codes than one batch keeps in memory', async () => {
  const { put, asAda } = await start()
  await put({ content: Array.from({ length: 120_000 }, (_, nth) => 7_000_000 + nth * 13).join('\n') })
  const find = (value: string) => asAda.search.advanced({ query: { must: [{ field: 'content', type: 'contains', value }] } })
  const last = String(7_000_000 + 119_999 * 13)
  for (const value of [last, last.slice(1), last.slice(2, 6)]) expect((await find(value)).total, value).toBe(1)
  expect((await find('699999')).total).toBe(0)
})

test('a part of a text is looked for once in a long document all of whose passages have its words', async () => {
  const { put, asAda } = await start()
  await put({ content: `${'lorem ipsum '.repeat(1_000_000)}, dolor` })
  const find = (value: string) =>
    asAda.call<SearchResults>('POST', '/api/search/advanced', { query: { must: [{ field: 'content', type: 'contains', value }] } })
  const [absent, present] = [await find('lorem, ipsum'), await find('lorem ipsum lorem')]
  expect([absent.total, present.total]).toEqual([0, 1])
})

test('indexing a long document does not block the event loop', async () => {
  const { put } = await start()
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  await put({ content: 'some words that repeat '.repeat(100_000) })
  clearInterval(timer)
  expect(turns).toBeGreaterThan(20)
})

test('a chain with too many parts for one word does not prevent joining later words', () => {
  const forms = [...tokenize('www.example.org/a/b/c/d/e/f/g/h/i.html by e-mail')].filter(({ form }) => form === 'joined')
  expect(forms.map(({ text }) => text)).toEqual(['email'])
})

test('words are folded, joined and paired', () => {
  const read = (text: string) => [...tokenize(text)].map(({ text, position }) => `${text}@${position}`).join(' ')
  expect(read("E-Mail O'Brien 1,234.56")).toBe('e@1 mail@2 email@1 o@3 brien@4 obrien@3 1@5 234@6 56@7 123456@5')
  expect(read('Donau-\n  dampf')).toBe('donau@1 dampf@2 donaudampf@1')
  expect(read('IBAN DE89 3704 0044 0532 0130 00 ok')).toContain('de89370400440532013000@2')
  expect(read('東京都 x東y')).toBe('東京@1 京都@2 都@3 x@4 東@5 y@6')
  expect(read('Ver\u200bkehrs\ufeffwege a\u00adb\u2060c\u200bd')).toBe('verkehrswege@1 abcd@2')
  expect(read('東\u200b京\u2060都\u200b')).toBe(read('東京都'))
  expect(read('x\u200b東\u200by')).toBe(read('x東y'))
  expect(read('ភាសា\u200bខ្មែរ')).toBe(read('ភាសាខ្មែរ'))
  expect(['Ångström', 'ﬁle', 'STRAẞE', 'İstanbul', 'Ｗｉｄｅ', 'soft\u00adhyphen', 'ΣΊΣΥΦΟΣ'].map(normalizeWord)).toEqual([
    'angstrom',
    'file',
    'strasse',
    'istanbul',
    'wide',
    'softhyphen',
    'σισυφοσ',
  ])
  for (const long of ['a'.repeat(1_000_000), 'é'.repeat(1_000_000), '漢'.repeat(100_000), 'a-'.repeat(500_000), 'a.'.repeat(500_000)]) {
    let longest = 0
    for (const word of tokenize(long)) longest = Math.max(longest, word.text.length)
    expect(longest).toBeLessThanOrEqual(255)
  }
})

test('a query keeps the meaning of its operators; equal terms are merged', () => {
  const typed = (query: string) =>
    parse(query).map(({ parts, negated, quoted }) => {
      const text = parts.map((part) => part.text + (part.prefix ? '*' : '')).join(' ')
      return `${negated ? '-' : ''}${quoted ? `"${text}"` : text}`
    })
  expect(typed('Foo "Annual  Report" -bar -"x y" e-ma')).toEqual(['foo', '"annual report"', '-bar', '-"x y"', 'e ma*'])
  expect(typed('foo "bar')).toEqual(['foo', '"bar"'])
  expect(typed('„foo bar“ -')).toEqual(['"foo bar"'])
  expect(typed('"a b" a "a b" a a')).toEqual(['"a b"', 'a', 'a*'])
  expect(typed('-- "" - \'')).toEqual([])
})

test('scripts without spaces are found by any part, and marked by character', async () => {
  const { put, search } = await start()
  await put({ title: '東京都の報告書', content: 'รายงานประจำปี' })
  for (const q of ['東京', '京都', '都', '報告書', '"東京都の"', 'รายงาน']) expect((await search({ q })).total, q).toBe(1)
  for (const q of ['東都', '告報']) expect((await search({ q })).total, q).toBe(0)
  expect((await search({ q: '報告' })).results[0]?.highlights).toEqual([{ field: 'title', snippet: '東京都の<mark>報告</mark>書' }])
  expect((await search({ q: '京' })).results[0]?.highlights).toEqual([{ field: 'title', snippet: '東<mark>京</mark>都の報告書' }])
})

test('200 with Korean words before their particles, in any order; quoted and excluded words are whole', async () => {
  const { put, search, asAda } = await start()
  await put({ content: '전기요금 청구서를 보냅니다. 계약서에 서명하세요.' })
  for (const q of ['계약서 청구서', '청구서 계약서 전기요금', 'content:청구서 계약서', '청구서 OR 없음']) {
    const { total, results } = await search({ q })
    expect([q, total, results[0]?.highlights[0]?.snippet]).toEqual([q, 1, expect.stringContaining('<mark>청구서를</mark>')])
  }
  expect((await search({ q: '"청구서" 계약서' })).total).toBe(0)
  expect((await search({ q: '-청구서 계약서' })).total).toBe(1)
  const { total } = await asAda.search.advanced({ query: { must: [{ field: 'content', type: 'match', value: '계약서 청구서' }] } })
  expect(total).toBe(1)
})

test('200 with words whose accents are combining marks, which other scripts have too', async () => {
  const { put, search } = await start()
  const words = ['mañana', 'São', 'Việt', 'ḻ']
  await put({ title: 'composed', content: words.join(' ') })
  await put({ title: 'decomposed', content: words.join(' ').normalize('NFD') })
  for (const word of words)
    for (const q of [word, word.normalize('NFD')]) expect([q, (await search({ q: `"${q}"` })).total]).toEqual([q, 2])
})

test('200 with Japanese and Thai in any form of their characters: half-width kana, radicals, variants, a vowel in two parts', async () => {
  const { put, search } = await start()
  const forms = [
    ['ガスとスーパー', 'ｶﾞｽとｽｰﾊﾟｰ'],
    ['日本人', '⽇本⼈'],
    ['葛城市', '葛\u{e0100}城市'],
    ['น้ำตาล', 'น้ำตาล'.normalize('NFKD')],
    ['ນ້ຳຕານ', 'ນ້ຳຕານ'.normalize('NFKD')],
    ['น้ำใส', 'น\u0e4d\u0e49\u0e32ใส'],
    ['ນ້ຳໃສ', 'ນ\u0ecd\u0ec9\u0eb2ໃສ'],
  ] as const
  for (const [usual, other] of forms) {
    expect(usual).not.toBe(other)
    await put({ content: `${usual} 1` })
    await put({ content: `${other} 2` })
    for (const q of [usual, other]) {
      const { total, results } = await search({ q })
      const snippets = results.map(({ highlights }) => highlights[0]?.snippet)
      expect([q, total, snippets]).toEqual([q, 2, [`<mark>${other}</mark> 2`, `<mark>${usual}</mark> 1`]])
    }
  }
})

test('200 with words that a soft hyphen divides at the end of a line', async () => {
  const { put, search } = await start()
  await put({ content: 'die Liefe\u00ad\nrung und die Zah\u00ad \r\n  lung\u00ad' })
  for (const word of ['Lieferung', 'Zahlung', '"Lieferung"', 'die Liefer'])
    expect([word, (await search({ q: word })).total]).toEqual([word, 1])
  expect((await search({ q: 'Lieferung' })).results[0]?.highlights[0]?.snippet).toContain('<mark>Liefe\u00ad\nrung</mark> und')
})

test('200 with words that have an apostrophe of any kind', async () => {
  const { put, search } = await start()
  const forms = ["зв'язок", 'зв’язок', 'звʼязок']
  for (const form of forms) await put({ content: form })
  for (const q of [...forms, '"звязок"', 'язок']) expect([q, (await search({ q })).total]).toEqual([q, 3])
})

test('200 with Hebrew abbreviations and compounds, whatever sign is inside them, or none', async () => {
  const { put, search } = await start()
  const forms = ['דו״ח', 'דו"ח', 'דו”ח', 'דוח']
  for (const form of forms) await put({ content: `${form} שנתי של החברה` })
  for (const form of forms) {
    for (const q of [form, `${form} החברה`, `"${form} שנתי" החברה`]) {
      const { total, warnings, results } = await search({ q })
      expect([q, warnings]).toEqual([q, []])
      if (!q.startsWith('"')) expect([q, total]).toEqual([q, forms.length])
      expect(results.length).toBeGreaterThan(0)
      for (const { highlights } of results) expect(highlights[0]?.snippet).toMatch(/^<mark>דו/)
    }
  }
  await put({ content: 'תל־אביב' })
  for (const q of ['תל־אביב', 'תל-אביב', 'תלאביב', '"תל אביב"']) expect([q, (await search({ q })).total]).toEqual([q, 1])
})

test('200 with numbers in the digits of any script', async () => {
  const { put, search, asAda } = await start()
  const forms = ['1234', '١٢٣٤', '۱۲۳۴', '१२३४', '১২৩৪', '๑๒๓๔', '１２３４']
  for (const form of forms) await put({ content: `n ${form}.` })
  await put({ content: 'ราคา๑๒๓๔บาท' })
  await put({ content: '1235' })
  for (const q of forms) {
    const { total, results } = await search({ q: `${q} ` })
    expect([q, total]).toEqual([q, forms.length + 1])
    expect(new Set(results.map(({ highlights }) => highlights[0]?.snippet))).toEqual(
      new Set([...forms.map((form) => `n <mark>${form}</mark>.`), 'ราคา<mark>๑๒๓๔</mark>บาท']),
    )
    const must = [{ field: 'content', type: 'contains', value: q }] as const
    expect((await asAda.search.advanced({ query: { must: [...must] } })).total).toBe(forms.length + 1)
  }
  expect((await search({ q: 'ราคา ๑๒๓๔ บาท' })).total).toBe(1)
  expect((await search({ q: '"ราคา๑๒๓๔บาท"' })).total).toBe(1)
})

test('a code in groups is found as one word, and the reverse', async () => {
  const { put, search } = await start()
  await put({ title: 'Grouped', content: 'to DE89 3704 0044 0532 0130 00 by e-mail' })
  await put({ title: 'Whole', content: 'to DE89370400440532013000 by email' })
  for (const q of ['DE89370400440532013000', 'de89 3704 0044 0532 0130 00', 'email', 'e-mail', 'e-mai'])
    expect((await search({ q })).results.map(({ title }) => title).sort(), q).toEqual(['Grouped', 'Whole'])
})

test('200 with an amount, whatever separates its thousands in the query and in the text', async () => {
  const { put, search, asAda } = await start()
  const forms = ['1234,56', '1.234,56', '1,234.56', "1'234.56", '1 234,56', '1\u00a0234,56', '1\u202f234.56']
  for (const form of forms) await put({ content: `zu zahlen: ${form} €` })
  await put({ content: '1 Stück, 234 Seiten, 56 Bilder; 11234,56' })
  for (const form of forms) {
    const { total, results } = await search({ q: form })
    expect([form, total]).toEqual([form, forms.length])
    expect(results.map(({ highlights }) => highlights[0]?.snippet).sort()).toEqual(
      forms.map((other) => `zu zahlen: <mark>${other.replace("'", '&#39;')}</mark> €`).sort(),
    )
    for (const q of [`€${form}`, `content:${form} zahlen`, `${form} -Bilder`])
      expect([q, (await search({ q })).total]).toEqual([q, forms.length])
    expect((await search({ q: `zahlen -${form}` })).total).toBe(0)
    const must = [{ field: 'content', type: 'match', value: form }] as const
    expect((await asAda.search.advanced({ query: { must: [...must] } })).total).toBe(forms.length)
  }
  expect((await search({ q: '1234,57' })).total).toBe(0)
})

test('200 with a number of five digits or more, whatever separates its thousands in the text', async () => {
  const { put, search, asAda } = await start()
  const forms = ['12345678', '12.345.678', "12'345'678", '12 345 678', '12\u202f345\u202f678']
  for (const form of forms) await put({ content: `Zahl: ${form} m` })
  await put({ content: 'Zahl: 12 Stück, 345 Seiten, 678 Bilder; 112 345 678, 2 026' })
  for (const q of ['12345678', '12345678 Zahl', 'content:12345678', '12345678 -Bilder']) {
    const { total, results } = await search({ q })
    expect([q, total]).toEqual([q, forms.length])
    const marked = results.map(({ highlights }) => highlights[0]?.snippet.replace(/<mark>Zahl<\/mark>/, 'Zahl'))
    expect(marked.sort()).toEqual(forms.map((form) => `Zahl: <mark>${form.replaceAll("'", '&#39;')}</mark> m`).sort())
  }
  expect((await search({ q: 'zahl -12345678' })).total).toBe(1)
  const must = [{ field: 'content', type: 'match', value: '12345678' }] as const
  expect((await asAda.search.advanced({ query: { must: [...must] } })).total).toBe(forms.length)
  for (const q of ['2026 zahl', '012345678 zahl', '12345679']) expect([q, (await search({ q })).total]).toEqual([q, 0])
})

test('a period of a month before the year 100 ends with the month', () => {
  expect(parsePeriod('0050-02')).toEqual({ from: '0050-02-01', to: '0050-02-28' })
  expect(parsePeriod('0096-02..0096-04')).toEqual({ from: '0096-02-01', to: '0096-04-30' })
  expect(parsePeriod('2026-12')).toEqual({ from: '2026-12-01', to: '2026-12-31' })
})

test('200 with typos in words of Hindi and Bengali, whose vowels are signs', async () => {
  const { put, search } = await start()
  await put({ title: 'One', content: 'विद्यालय का पुस्तकालय' })
  await put({ title: 'Two', content: 'বিশ্ববিদ্যালয়ের গ্রন্থাগার' })
  for (const [q, title] of [
    ['विद्यालाय का', 'One'],
    ['पुसतकालय का', 'One'],
    ['গ্রনথাগার ', 'Two'],
  ] as const) {
    expect([q, (await search({ q })).total]).toEqual([q, 0])
    const { results } = await search({ q, fuzzy: true })
    expect([q, results.map(({ title }) => title)]).toEqual([q, [title]])
    expect(results[0]?.highlights[0]?.snippet).toContain('<mark>')
  }
  await put({ title: 'Three', content: 'ที่นี่' })
  expect((await search({ q: '"ที่นั่"', fuzzy: true })).total).toBe(0)
})

test('200 with an IBAN in groups before other numbers, whole or in part, with and without spaces', async () => {
  const { put, search } = await start()
  await put({ title: 'Statement', content: 'AT61 1904 3002 3457 3201 01.02.2024 1.234,56 EUR' })
  await put({ title: 'Transfer', content: 'AT61 1904 3002 3457 3201 100,00 EUR' })
  await put({ title: 'Whole', content: 'AT611904300234573201 EUR' })
  const titles = async (q: string) => (await search({ q })).results.map(({ title }) => title).sort()
  const iban = 'AT61 1904 3002 3457 3201'
  for (const q of [iban, `"${iban}"`, `${iban} EUR`, iban.replaceAll(' ', ''), `${iban.replaceAll(' ', '')} EUR`])
    expect([q, await titles(q)]).toEqual([q, ['Statement', 'Transfer', 'Whole']])
  expect(await titles('"AT61 1904 3002 3457"')).toEqual(['Statement', 'Transfer'])
  expect(await titles('AT61 1904 3002 3457')).toEqual(['Statement', 'Transfer', 'Whole'])
})

test('odd dates and names are refused or find nothing, and never fail', async () => {
  const { asAda, path } = await start()
  const dates = [
    '0000-01-01',
    '0001-01-01T00:00:00Z',
    '9999-12-31',
    '275760-09-13',
    '+275760-09-13T00:00:00Z',
    '2026-02-30',
    '2026-01-01T00:00:00+14:00',
    '-infinity',
    '',
  ]
  const names = ["x' OR 1=1", '\\', "'\\''", '%', '~o', '', ' ', 'a'.repeat(256), '\u202e', '💥']
  const all = [
    ...dates.flatMap((date) => [{ date_range: { from: date } }, { date_range: { to: date } }]),
    ...names.flatMap((name) => [{ mime_types: [name] }, { labels: [name] }, { owner: name }]),
  ]
  for (const filters of all)
    expect([200, 400], JSON.stringify(filters)).toContain((await asAda.send('GET', path({ q: 'x', filters }))).status)
})

test('a document that is deleted while it is indexed leaves no entry', async () => {
  const { app, ada } = await start()
  const id = await insertDocument(app.db, ada.id, { content: 'a long text that takes its time '.repeat(100_000) })
  const refreshed = app.search.refresh([id])
  const isReading = sql<{ found: boolean }>`
    select exists (select from pg_locks join pg_database on pg_database.oid = database where locktype = 'advisory' and datname = current_database()) as found`
  while (!(await isReading.execute(app.db)).rows[0]?.found) await sleep(1)
  await sleep(20)
  await app.db.deleteFrom('documents').where('id', '=', id).execute()
  await refreshed
  expect(await app.search.count()).toBe(0)
  expect(await app.db.selectFrom('search_passages').select('passage').execute()).toEqual([])
})

test('every word within reach of a typo has one of the searched pieces', () => {
  const random = seeded(7)
  const pick = (limit: number) => Math.floor(random() * limit)
  const edits: ((word: string, at: number, letter: string) => string)[] = [
    (word, at) => word.slice(0, at) + word.slice(at + 1),
    (word, at, letter) => word.slice(0, at) + letter + word.slice(at),
    (word, at, letter) => word.slice(0, at) + letter + word.slice(at + 1),
    (word, at) =>
      word.slice(0, at) +
      word
        .slice(at, at + 2)
        .split('')
        .reverse()
        .join('') +
      word.slice(at + 2),
  ]
  for (let round = 0; round < 20_000; round++) {
    const word = Array.from({ length: 5 + pick(10) }, () => 'abcdef'[pick(6)]).join('')
    const typos = maxTypos(word)
    if (typos === 0) throw new Error('too short')
    let other = word
    for (let count = 0; count < typos; count++) other = edits[pick(4)]!(other, pick(other.length + 1), 'abcdef'[pick(6)]!)
    if (editDistance(word, other, typos) > typos) continue
    const { beginning, middle, ending } = wordParts(word, typos)
    const has = other.startsWith(beginning) || other.endsWith(ending) || (middle !== null && other.includes(middle))
    expect(has, `${word} ${other} ${beginning} ${middle} ${ending}`).toBe(true)
  }
})

test('the distance counts a swap as one, and stops beyond its limit', () => {
  const pairs: [string, string, number][] = [
    ['house', 'house', 0],
    ['house', 'huose', 1],
    ['house', 'hous', 1],
    ['house', 'horses', 2],
    ['ab', 'ba', 1],
    ['kitten', 'sitting', 3],
  ]
  for (const [one, other, far] of pairs) {
    expect(editDistance(one, other, 3)).toBe(far)
    expect(editDistance(other, one, 3)).toBe(far)
  }
  expect(editDistance('kitten', 'sitting', 1)).toBe(2)
  expect([maxTypos('four'), maxTypos('fives'), maxTypos('ninechars'), maxTypos('inv2026'), maxTypos('20260317')]).toEqual([0, 1, 2, 0, 0])
})

const naughty = [
  ...[
    '<mark>',
    '</mark>',
    '<script>',
    '&amp;',
    '&',
    '"',
    "'",
    '<',
    '>',
    'word',
    'Wörd',
    'WORD',
    'wor\u0301d',
    'w-ord',
    ' ',
    '  ',
    '\n',
    '\t',
  ],
  ...[
    '\u00ad',
    '\u200b',
    '\u200d',
    '\u202e',
    '👩‍👩‍👧',
    '𝐖ord',
    '漢字',
    'ไทย',
    'ﷺ',
    '½',
    'ß',
    'İ',
    '.',
    '-',
    ',',
    '1,2',
    '\\',
    '%',
    '()',
    ':*',
    '!',
    '|',
  ],
  'a'.repeat(30),
]

test('any query is answered, and every word of a document finds it', async () => {
  const { app, put, search } = await start()
  const random = seeded(11)
  const some = (most: number) =>
    Array.from({ length: 1 + Math.floor(random() * most) }, () => naughty[Math.floor(random() * naughty.length)]!).join('')
  const contents = Array.from({ length: 5 }, () => some(80))
  const ids: string[] = []
  for (const content of contents) ids.push(await put({ title: some(5), filename: some(5), content }))
  for (const [index, content] of contents.entries()) {
    const found = (q: string) => search({ q, per_page: 100 }).then(({ results }) => results.map(({ document_id }) => document_id))
    for (const { text, form } of tokenize(content))
      if (form !== 'joined') expect(await found(text), `${text} in ${content}`).toContain(ids[index])
  }
  for (let round = 0; round < 150; round++) await search({ q: `x${some(20)}`, fuzzy: random() < 0.5 })
  for (const q of [
    'a-'.repeat(500),
    '漢'.repeat(1000),
    'a '.repeat(500),
    '-a '.repeat(333),
    '"a b" '.repeat(166),
    'abcde '.repeat(166),
    '"'.repeat(1000),
  ])
    expect((await search({ q, fuzzy: true })).took_ms, q.slice(0, 6)).toBeLessThan(10_000)
  await app.search.check()
})

test('a snippet has no markup but <mark>, and without it is a part of the text', async () => {
  const random = seeded(42)
  const pick = () => naughty[Math.floor(random() * naughty.length)]!
  const plainOf = (html: string) =>
    html.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ({ amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" })[name]!)
  let marked = 0
  for (let round = 0; round < 2000; round++) {
    const text = Array.from({ length: 1 + Math.floor(random() * 60) }, pick).join('')
    const query = Array.from({ length: 1 + Math.floor(random() * 4) }, () => (random() < 0.3 ? `"${pick()} ${pick()}"` : pick())).join(' ')
    const snippets = highlighter({ terms: parse(query), expansions: new Map([['word', ['ord']]]) })(text, { size: 40, max: 3 })
    for (const snippet of await runSteps(snippets)) {
      expect(snippet).toContain('<mark>')
      expect(snippet.replace(/<mark>[^<>]+<\/mark>/g, '')).not.toMatch(/[<>"']/)
      const plain = plainOf(snippet.replace(/<\/?mark>/g, ''))
      expect(text).toContain(plain)
      expect(plain.isWellFormed()).toBe(true)
      marked++
    }
  }
  expect(marked).toBeGreaterThan(1000)
})

test('searchMatches finds what reading all words of the text finds', async () => {
  const random = seeded(7)
  const pick = () => naughty[Math.floor(random() * naughty.length)]!
  const gaps = [' ', '. ', '\n', '-', '', ', ', '-\n', ' '.repeat(300)]
  let seen = 0
  for (let round = 0; round < 1000; round++) {
    const text = Array.from({ length: Math.floor(random() * 80) }, () => pick() + gaps[Math.floor(random() * gaps.length)]).join('')
    const read = [...tokenize(text)]
    const wanted = read[Math.floor(random() * read.length)]?.text ?? 'nothing'
    const terms = [
      {
        parts: [{ text: wanted, offset: 0, prefix: false }],
        joined: null,
        grouped: null,
        negated: false,
        quoted: true,
        field: null,
        alternative: false,
      },
    ]
    const matches = await runSteps(searchMatches(text, compileMatcher({ terms, expansions: new Map() }), () => false))
    const starts = matches.map(({ start }) => start)
    const expected = read.filter((word) => word.text === wanted).map(({ start }) => start)
    expect([...new Set(starts)].sort(), JSON.stringify([wanted, text])).toEqual([...new Set(expected)].sort())
    seen += expected.length
  }
  expect(seen).toBeGreaterThan(1000)
})

test('places of a word: in a run that begins in another script, behind the limit of an endless one, and joined over any space', async () => {
  const starts = async (text: string, query: string) => {
    const matches = await runSteps(searchMatches(text, compileMatcher({ terms: parse(query), expansions: new Map() }), () => false))
    return matches.map(({ start }) => start)
  }
  expect(await starts('see abc東京 there', '"東京"')).toContain(7)
  expect(await starts(`${'2026'.repeat(300)} 2`, '2026')).toEqual([0, 1000])
  expect(await starts(`a broken in-\n${' '.repeat(60)}voice`, '"invoice"')).toEqual([9])
  expect(await starts('GB33 BUKB 2020 1555 5555 55', '"BUKB"')).toEqual([5])
  expect(await starts('an e-mail and an email', '"email"')).toEqual([3, 17])
})

test('the snippets of a long text with most of the words come first', async () => {
  const filler = 'nothing to see here. '.repeat(50)
  const text = `one alone ${filler} one and two together ${filler} two`
  const found = await runSteps(highlighter({ terms: parse('one two'), expansions: new Map() })(text, { size: 60, max: 2 }))
  expect(found[0]).toContain('<mark>one</mark> and <mark>two</mark>')
  expect(found).toHaveLength(2)
  for (const snippet of found) expect(snippet.replace(/<\/?mark>/g, '').length).toBeLessThanOrEqual(60)
})

test('a phrase is found in a text of any length and in a title, where its field is; reversed words are not', async () => {
  const { put, search, asAda } = await start()
  const short = await put({ title: 'Short', content: 'the silver harbour' })
  const long = await put({ title: 'Long', content: `${'filler '.repeat(2000)}silver harbour` })
  const title = await put({ title: 'Silver harbour', content: 'harbour' })
  await put({ title: 'Harbour', content: 'harbour silver, or silver and harbour' })
  const found = async (q: string) => (await search({ q })).results.map(({ document_id }) => document_id).toSorted()
  expect(await found('"silver harbour"')).toEqual([short, long, title].toSorted())
  expect(await found('content:"silver harbour"')).toEqual([short, long].toSorted())
  expect(await found('title:"silver harbour"')).toEqual([title])
  expect(await found('"the silver harbour"')).toEqual([short])
  expect(await found('"silver harbour" filler')).toEqual([long])
  for (const [field, wanted] of [
    ['content', [short, long]],
    ['any', [short, long, title]],
  ] as const) {
    const { results } = await asAda.search.advanced({ query: { must: [{ field, type: 'exact', value: 'silver harbour' }] } })
    expect(results.map(({ document_id }) => document_id).toSorted(), field).toEqual([...wanted].toSorted())
  }
})

test('200 without documents whose phrase begins in the title or filename and ends in the next field', async () => {
  const { put, search } = await start()
  await put({ title: 'One', content: '2026-17' })
  await put({ title: 'On 17.03.2026', filename: '17.pdf', content: 'pages' })
  const titles = async (q: string) => (await search({ q })).results.map(({ title }) => title)
  for (const q of ['2026-17', '"2026/17"']) expect([q, await titles(q)]).toEqual([q, ['One']])
  expect(await titles('pages -"2026 17"')).toEqual(['On 17.03.2026'])
})

test('200 with a phrase that ends with a word in parts; without the document if it is excluded', async () => {
  const { put, search, asAda } = await start()
  await put({ title: 'To my e-mail', content: 'auf der Waschma-\nschine' })
  await put({ title: 'Long', content: `${'filler '.repeat(2000)}auf der Waschma-\nschine` })
  const cases = [
    ['"my email"', 'To <mark>my e-mail</mark>', 1],
    ['"der Waschmaschine"', 'auf <mark>der Waschma-\nschine</mark>', 2],
    ['content:"auf der Waschmaschine"', '<mark>auf der Waschma-\nschine</mark>', 2],
  ] as const
  for (const [q, snippet, count] of cases) {
    const { total, results } = await search({ q })
    expect([q, total, results.at(-1)?.highlights.map(({ snippet }) => snippet)]).toEqual([q, count, [expect.stringContaining(snippet)]])
    expect([q, (await search({ q: `auf -${q}` })).total]).toEqual([q, 2 - count])
  }
  const must = [{ field: 'content', type: 'exact', value: 'der Waschmaschine' }] as const
  expect((await asAda.search.advanced({ query: { must: [...must] } })).total).toBe(2)
  expect((await search({ q: '"auf Waschmaschine"' })).total).toBe(0)
})

test('200 for content:word with long documents that have it in the text, not in the title; -content:word leaves them out', async () => {
  const { put, search } = await start()
  const filler = 'filler '.repeat(2000)
  const inTitle = await put({ title: 'Harbour', filename: 'harbour.pdf', content: filler })
  const inText = await put({ title: 'Late', content: `${filler}the harbour` })
  const both = await put({ title: 'Harbour', content: `${filler}the harbours` })
  const found = async (q: string) => (await search({ q })).results.map(({ document_id }) => document_id).toSorted()
  for (const q of ['content:harbour', 'content:harb', 'filler content:harbour'])
    expect([q, await found(q)]).toEqual([q, [inText, both].toSorted()])
  expect(await found('content:harbour OR title:late')).toEqual([inText, both].toSorted())
  expect(await found('filler -content:harbour')).toEqual([inTitle, both].toSorted())
  expect(await found('filler -content:harbours -content:harbour')).toEqual([inTitle])
  expect(await found('filler -harbour')).toEqual([])
})

test('the last word also matches as a prefix, with a lower score than the whole word', async () => {
  const { put, search } = await start()
  const longer = await put({ title: 'One', content: 'the harbourmaster' })
  const found = async (q: string) => (await search({ q })).results.map(({ document_id }) => document_id)
  expect(await found('harbour')).toEqual([longer])
  const word = await put({ title: 'Two', content: 'a harbour' })
  const numbered = await put({ title: 'Three', content: 'harbour2 of three' })
  expect(await found('harbour')).toEqual([word, numbered, longer])
  expect(await found('three harbour')).toEqual([numbered])
  expect(await found('harbour three')).toEqual([])
})

test('rarer words of a query count more', async () => {
  const { put, search, asAda } = await start()
  const often = (word: string) => Array.from({ length: 4 }, () => word).join(' ; ')
  await put({ title: 'Rare', content: `the invoice that was sent to us for ${often('quarry')}` })
  await put({ title: 'Common', content: `${often('invoice')} which came to us from the quarry` })
  for (let nth = 0; nth < 40; nth++) await put({ title: `Letter ${nth}`, content: 'the invoice of that month' })
  for (const q of ['invoice quarry', 'quarry invoice', 'invoice OR quarry']) {
    expect(
      (await search({ q })).results.slice(0, 2).map(({ title }) => title),
      q,
    ).toEqual(['Rare', 'Common'])
  }
  const clause = (value: string) => ({ field: 'content', value, type: 'match' })
  for (const query of [{ should: [clause('invoice'), clause('quarry')] }, { must: [clause('invoice quarry')] }]) {
    const { results } = await asAda.call<SearchResults>('POST', '/api/search/advanced', { query })
    expect(results.slice(0, 2).map(({ title }) => title)).toEqual(['Rare', 'Common'])
  }
})

test('words of one stem match in the languages of the documents, with a lower score; phrases, -not and exact are unchanged', async () => {
  const { app, put, search, asAda } = await start()
  const ids = [
    await put({ title: 'One', content: 'the invoices of march' }),
    await put({ title: 'Two', content: 'an invoice of march by e-mail' }),
    await put({ title: 'Drei', content: 'die Häuser am See' }),
  ]
  await app.db.updateTable('documents').set({ language: 'deu' }).where('id', '=', ids[2]!).execute()
  await app.search.refresh(ids)
  const titles = async (q: string) => (await search({ q })).results.map(({ title }) => title)
  expect(await titles('invoice')).toEqual(['Two', 'One'])
  expect(await titles('invoices')).toEqual(['One', 'Two'])
  expect(await titles('invoicing march')).toHaveLength(2)
  expect(await titles('hauser')).toEqual(['Drei'])
  expect(await titles('Haus')).toEqual(['Drei'])
  expect(await titles('Hause')).toEqual(['Drei'])
  expect(await titles('"an invoices"')).toEqual([])
  expect(await titles('march -invoice')).toEqual(['One'])
  expect(await titles('e-mails march')).toEqual(['Two'])
  expect(await titles('"e-mails" march')).toEqual([])
  expect((await search({ q: 'invoicing' })).results[0]?.highlights[0]?.snippet).toMatch(/<mark>invoices?<\/mark>/)
  const conditions = (type: 'match' | 'exact', value: string) => ({ query: { must: [{ field: 'content' as const, type, value }] } })
  expect((await asAda.search.advanced(conditions('match', 'invoicing'))).total).toBe(2)
  expect((await asAda.search.advanced(conditions('exact', 'invoicing'))).total).toBe(0)
})

test('200 with other forms of words in languages whose stemmers need accents, or came with a migration', async () => {
  const { app, ada, search } = await start()
  const forms = [
    ['ara', 'مستشفى', 'مستشفي'],
    ['cat', 'informació', 'informacions'],
    ['eus', 'kontua', 'kontuak'],
    ['fas', 'شرکت', 'شركت'],
    ['fra', 'facturer', 'facturées'],
    ['hin', 'किताब', 'किताबें'],
    ['ind', 'perjanjian', 'perjanjiannya'],
    ['msa', 'buku', 'bukunya'],
    ['nep', 'कम्पनी', 'कम्पनीको'],
    ['por', 'situação', 'situações'],
    ['ron', 'informație', 'informații'],
    ['rus', 'новый', 'нового'],
    ['spa', 'declaración', 'declaraciones'],
    ['srp', 'уговор', 'уговора'],
    ['tam', 'வீடு', 'வீடுகள்'],
    ['ukr', 'ґанок', 'ганок'],
  ] as const
  for (const [language, ...words] of forms) {
    const ids: string[] = []
    for (const word of words) ids.push(await insertDocument(app.db, ada.id, { title: language, content: `${word}.` }))
    await app.db.updateTable('documents').set({ language }).where('id', 'in', ids).execute()
    await app.search.refresh(ids)
  }
  const countAll = async () => {
    for (const [language, ...words] of forms)
      for (const word of words) expect([language, word, (await search({ q: `${word} ${language}` })).total]).toEqual([language, word, 2])
  }
  await countAll()
  // Words that were indexed before the migration.
  const { up, down } = await import('../../migrations/0028_stems.ts')
  await down(app.db as Kysely<unknown>)
  expect((await search({ q: 'declaración spa' })).total).toBe(1)
  await up(app.db as Kysely<unknown>)
  await countAll()
})

test('200 with forms of a word that is its own stem, which takes no row, also with rows of an earlier version', async () => {
  const { app, put, search } = await start()
  const ids = [await put({ title: 'One', content: 'a form' }), await put({ title: 'Two', content: 'two forms' })]
  await app.db.updateTable('documents').set({ language: 'eng+pol' }).where('id', 'in', ids).execute()
  await app.search.refresh(ids)
  const countRows = async () =>
    (await sql<{ count: number }>`select count(*)::int as count from search_stems where word like 'form%'`.execute(app.db)).rows[0]?.count
  const expectBoth = async () => {
    for (const q of ['form', 'forms']) expect([q, (await search({ q })).total]).toEqual([q, 2])
  }
  await expectBoth()
  expect(await countRows()).toBe(1)
  const { up, down } = await import('../../migrations/0034_own_stems.ts')
  await down(app.db as Kysely<unknown>)
  expect(await countRows()).toBe(4)
  await expectBoth()
  await up(app.db as Kysely<unknown>)
  expect(await countRows()).toBe(1)
  await expectBoth()
})

test('filters in the query: type, label, added, status, owner; an invalid one is a warning and never an error', async () => {
  const { app, put, asAda, asAdmin } = await start()
  await put({ title: 'Scan', content: 'word', mimeType: 'image/png', labels: ['Tax 2026'], createdAt: new Date('2026-02-10T00:00:00Z') })
  await put({ title: 'Letter', content: 'word', mimeType: 'application/pdf', createdAt: new Date('2026-03-31T23:00:00Z') })
  await put({ title: 'Note', content: 'word 10:30', status: 'failed', createdAt: new Date('2025-01-01T00:00:00Z') })
  const found = async (q: string, as = asAda) => {
    const { results, warnings } = await as.search.query(q)
    return [
      results
        .map(({ title }) => title)
        .sort()
        .join(),
      warnings.length,
    ]
  }
  const cases: [string, string, number][] = [
    ['type:pdf word', 'Letter', 0],
    ['word type:image', 'Scan', 0],
    ['type:pdf,image', 'Letter,Scan', 0],
    ['type:image/*', 'Scan', 0],
    ['TYPE:text/plain wor', 'Note', 0],
    ['word -type:pdf', 'Note,Scan', 0],
    ['label:"tax 2026"', 'Scan', 0],
    ['word -label:"tax 2026"', 'Letter,Note', 0],
    ['word added:2026', 'Letter,Scan', 0],
    ['added:2026-03', 'Letter', 0],
    ['added:2026-02..2026-03', 'Letter,Scan', 0],
    ['added:..2026-02', 'Note,Scan', 0],
    ['added:2026-02-11..', 'Letter', 0],
    ['status:failed', 'Note', 0],
    ['owner:ada type:pdf', 'Letter', 0],
    ['owner:bob word', '', 1],
    ['owner:nobody word', '', 1],
    ['owner:bob owner:ada word', 'Letter,Note,Scan', 1],
    ['10:30', 'Note', 0],
    ['https://example.org/word', '', 0],
    ['word type:nonsense', 'Letter,Note,Scan', 1],
    ['word added:2026-13', 'Letter,Note,Scan', 1],
    ['word added:2026-02-30', 'Letter,Note,Scan', 1],
    ['word added:x..y..z', 'Letter,Note,Scan', 1],
    ['word status:lost', 'Letter,Note,Scan', 1],
    ['word label:none', '', 1],
    ['word -label:none', 'Letter,Note,Scan', 1],
    ['word -owner:bob', 'Letter,Note,Scan', 1],
    ['author:word', '', 1],
    ['constructor:word', '', 1],
    ['__proto__:word', '', 1],
    ['__proto__: word', '', 0],
    ['"word', 'Letter,Note,Scan', 1],
    ['OR word', 'Letter,Note,Scan', 1],
    ['word OR', 'Letter,Note,Scan', 1],
    ['word OR type:pdf', 'Letter', 1],
    ['-absent OR word', 'Letter,Note,Scan', 1],
    ['!!! OR word', 'Letter,Note,Scan', 1],
    ['letter OR OR note', 'Letter,Note', 1],
    ['word OR OR', 'Letter,Note,Scan', 1],
    ['word added:2026-03..2026-02', '', 1],
    ['word added:2026 added:2026-13 added:2026-13', 'Letter,Scan', 1],
    ['type:', '', 1],
    ['word title: letter', '', 1],
    ['title:"" word', 'Letter,Note,Scan', 1],
    ['label:"" word', '', 1],
    ['letter AND word', '', 1],
    ['word NOT letter', '', 1],
    ['"AND" -"NOT" word', '', 0],
    ['lett* word', '', 1],
    ['*ord', '', 1],
    ['wor* type:pdf', 'Letter', 0],
    ['!!!', '', 1],
    ['type:pdf !!!', 'Letter', 1],
    ['-absent', 'Letter,Note,Scan', 0],
  ]
  for (const [q, titles, warnings] of cases) expect([q, ...(await found(q))]).toEqual([q, titles, warnings])
  await put({ title: 'Dated', content: 'dated', date: '2019-07-01', createdAt: new Date('2026-02-10T00:00:00Z') })
  for (const [q, titles, warnings] of [
    ['date:2019', 'Dated', 0],
    ['dated date:..2019-06', '', 0],
    ['date:2019-07-01 added:2026-02-10', 'Dated', 0],
    ['date:2026', '', 0],
    ['dated date:2019-13', 'Dated', 1],
    ['dated -date:2019', 'Dated', 1],
    ['date:2020..2019', '', 1],
    ['date:1.7.2019', 'Dated', 0],
    ['date:01.07.2019 added:10.02.2026', 'Dated', 0],
    ['date:30.6.2019..7.2019', 'Dated', 0],
    ['date:..06/2019', '', 0],
    ['date:7/2019', 'Dated', 0],
    ['dated date:1/7/2019', 'Dated', 1],
  ] as const)
    expect([q, ...(await found(q))]).toEqual([q, titles, warnings])
  expect((await asAda.search.query('date:2026-02-30')).warnings).toEqual(['date:2026-02-30: the day 2026-02-30 does not exist: ignored'])
  expect((await asAda.search.query('date:30.2.2026')).warnings).toEqual(['date:30.2.2026: the day 30.2.2026 does not exist: ignored'])
  expect((await asAda.search.query('added:2026-01..2026-13')).warnings).toEqual([
    'added:2026-01..2026-13: the month 2026-13 does not exist: ignored',
  ])
  const dated = (document_date: object) => asAda.search.query('dated', { filters: { document_date } })
  expect((await dated({ from: '2019-07-01', to: '2019-07-01' })).results[0]?.document_date).toBe('2019-07-01')
  expect((await dated({ from: '2019-07-02' })).total).toBe(0)
  expect((await asAda.send('GET', `/api/search?q=dated&filters=${encodeURIComponent('{"document_date":{"from":"2019"}}')}`)).status).toBe(
    400,
  )
  expect(await found('owner:ada type:pdf', asAdmin)).toEqual(['Letter', 0])
  expect(await found('owner:nobody type:pdf', asAdmin)).toEqual(['', 1])
  const narrowed = (filters: object) => asAda.search.query('word type:image', { filters })
  expect((await narrowed({ mime_types: ['image/png', 'text/plain'] })).total).toBe(1)
  expect((await narrowed({ mime_types: ['text/plain'] })).total).toBe(0)
  expect((await narrowed({ date_range: { from: '2026-02-11' } })).total).toBe(0)
  await app.search.check()
})

test('suggestions have no ligatures and soft hyphens, and first the accents that are typed', async () => {
  const { put, asAda } = await start()
  await put({ content: 'oﬃziell Donau\u00addampf Mu\u0308ller multi' })
  await put({ content: 'multi' })
  const suggested = async (q: string) => (await asAda.search.suggest(q)).map(({ text }) => text)
  expect(await suggested('offiz')).toEqual(['offiziell'])
  expect(await suggested('don')).toEqual(['donaudampf'])
  expect(await suggested('mul')).toEqual(['multi', 'müller'])
  expect(await suggested('oﬃziell Mül')).toEqual(['oﬃziell müller', 'oﬃziell multi'])
  expect(await suggested('mül')).toEqual(['müller', 'multi'])
})

test('suggestions complete the last word from documents of the user, correct its typos, and reveal nothing of others', async () => {
  const { put, asAda, asBob, asAdmin, app, bob } = await start()
  await put({ title: 'Rechnung März', content: 'Rechnungen und Rechner für die Telekom' })
  await put({ title: 'Rechnung April', content: 'nichts' })
  const theirs = await insertDocument(app.db, bob.id, { content: 'Rechenschaft' })
  await app.search.refresh([theirs])
  expect(await asAda.search.suggest('rech')).toEqual([
    { text: 'rechnung', documents: 2 },
    { text: 'rechner', documents: 1 },
    { text: 'rechnungen', documents: 1 },
  ])
  expect(await asAda.search.suggest('telekom rech', 1)).toEqual([{ text: 'telekom rechner', documents: 1 }])
  expect(await asAda.search.suggest('mär')).toEqual([{ text: 'märz', documents: 1 }])
  expect(await asAda.search.suggest('rechnnug')).toEqual([{ text: 'rechnung', documents: 2 }])
  expect(await asAda.search.suggest('reche')).toEqual([])
  expect(await asBob.search.suggest('rech')).toEqual([{ text: 'rechenschaft', documents: 1 }])
  expect(await asAdmin.search.suggest('rech')).toHaveLength(4)
  expect(await asAda.search.suggest('owner:ada type:txt -telekom rech')).toEqual([
    { text: 'owner:ada type:txt -telekom rechnung', documents: 1 },
  ])
  expect(await asAda.search.suggest('telekom Title:rech')).toEqual([{ text: 'telekom Title:rechnung', documents: 1 }])
  expect(await asAda.search.suggest('filename:na')).toEqual([{ text: 'filename:nameless', documents: 2 }])
  const nothing = ['rech type:txt', 'type:pdf rech', 'owner:bob rech', 'label:none rech', 'rech label:"my rech', '"my rech']
  for (const q of ['rech ', '"rech"', '-rech', '!!', 'rech !', 'telekom 🎂', ...nothing])
    expect(await asAda.search.suggest(q), q).toEqual([])
})

test('similar: 404 DOCUMENT_NOT_FOUND for a document of another user; no document of others is returned', async () => {
  const { put, app, bob, asAda, asBob, asAdmin } = await start()
  const id = await put({ title: 'Mine', content: 'landlord and tenant agree on a deposit' })
  const other = await insertDocument(app.db, bob.id, { title: 'Theirs', content: 'landlord and tenant agree on a deposit' })
  await app.search.refresh([other])
  expect(await asAda.search.similar(id)).toEqual([])
  expect((await asAdmin.search.similar(id, 3)).map(({ title }) => title)).toEqual(['Theirs'])
  await expect(asBob.search.similar(id)).rejects.toMatchObject({ status: 404, code: 'DOCUMENT_NOT_FOUND' })
})

test('reindex: searches go on, concurrent changes are included, and after a failure the old index stays in use', async () => {
  const { app, ada, search, asAda, runJobs } = await start()
  const ids: string[] = []
  for (let nth = 0; nth < 30; nth++) ids.push(await insertDocument(app.db, ada.id, { title: `Old ${nth}`, content: 'word' }))
  await reindex(app)
  let changed = 0
  let busy = Promise.resolve()
  const totals: number[] = []
  const done = await reindex(app, {
    batchSize: 5,
    onProgress: () => {
      const [id, goes] = [ids[changed]!, ids[29 - changed]!]
      changed++
      busy = busy.then(async () => {
        await asAda.call('PUT', `/api/documents/${id}`, { title: `New ${id}` })
        await asAda.documents.delete(goes)
        await runJobs(['index'])
        totals.push((await search({ q: 'word' })).total)
      })
    },
  })
  await busy
  expect(done.swapped).toBe(true)
  await runJobs(['index'])
  expect((await search({ q: 'title:new' })).total).toBe(6)
  expect((await search({ q: 'word' })).total).toBe(24)
  for (const total of totals) expect(total).toBeGreaterThanOrEqual(24)
  expect(await status(app)).toMatchObject({ engine: 'postgres', documents: 24, database: 24, drift: 0, outdated: 0 })
  await expect(
    reindex(app, {
      onProgress: () => {
        throw new Error('stopped')
      },
    }),
  ).rejects.toThrow('stopped')
  expect((await search({ q: 'word' })).total).toBe(24)
  const { rows } = await sql`select from pg_class where relname like 'search_segment__' and relkind = 'r'`.execute(app.db)
  expect(rows).toHaveLength(1)
  expect(await app.db.selectFrom('search_rebuild').select('key').execute()).toEqual([])
})

test('ranges of time include the millisecond that the API shows, in search and lists', async () => {
  const { app, ada, asAda, search } = await start()
  const id = await insertDocument(app.db, ada.id, { title: 'Late', content: 'word' })
  await sql`update documents set created_at = '2026-03-01T12:00:00.123456Z' where id = ${id}`.execute(app.db)
  await reindex(app)
  const [from, to] = ['2026-03-01T12:00:00.123Z', '2026-03-01T12:00:00.123Z']
  const total = async (range: object) => (await search({ q: 'word', filters: JSON.stringify({ date_range: range }) })).total
  expect([await total({ from, to }), await total({ to: '2026-03-01T12:00:00.122Z' })]).toEqual([1, 0])
  const listed = await Array.fromAsync(asAda.documents.list({ date_from: from, date_to: to }))
  expect(listed.map((document) => document.id)).toEqual([id])
})

test('reindex of some documents, of those changed since a time, in place, and as a dry run', async () => {
  const { app, ada, search } = await start()
  const [one, two] = [await insertDocument(app.db, ada.id, { content: 'word' }), await insertDocument(app.db, ada.id, { content: 'word' })]
  const total = async () => (await search({ q: 'word' })).total
  expect(await reindex(app, { dryRun: true })).toEqual({ documents: 2, skipped: false, swapped: false, omitted: 0 })
  expect(await reindex(app, { ids: [one], dryRun: true })).toEqual({ documents: 1, skipped: false, swapped: false, omitted: 0 })
  expect(await total()).toBe(0)
  expect(await reindex(app, { ids: [one] })).toEqual({ documents: 1, skipped: false, swapped: false, omitted: 0 })
  expect(await total()).toBe(1)
  await app.db
    .updateTable('documents')
    .set({ updated_at: new Date('2020-01-01') })
    .where('id', '=', one!)
    .execute()
  expect(await reindex(app, { since: new Date('2020-01-02') })).toMatchObject({ documents: 1, swapped: false })
  expect(await total()).toBe(2)
  expect(await reindex(app, { inPlace: true })).toEqual({ documents: 2, skipped: false, swapped: false, omitted: 0 })
  await app.db.deleteFrom('documents').where('id', '=', two!).execute()
  expect(await reindex(app, { ids: [two!] })).toMatchObject({ documents: 1 })
  expect(await total()).toBe(1)
})

test('changes during an outage of the engine are found afterwards, and deleted documents are not', async () => {
  const { app, asAda, search, runJobs } = await start()
  const { id } = await upload(asAda, 'a.txt', 'alpha')
  const gone = await upload(asAda, 'b.txt', 'alpha')
  await runJobs()
  const refresh = app.search.refresh
  Object.assign(app.search, { refresh: () => Promise.reject(new Error('out of reach')) })
  await asAda.call('PUT', `/api/documents/${id}`, { title: 'Omega' })
  await asAda.documents.delete(gone.id)
  await runJobs(['index'])
  expect((await search({ q: 'omega' })).total).toBe(0)
  Object.assign(app.search, { refresh })
  await app.db
    .updateTable('jobs')
    .set({ run_at: new Date(0) })
    .where('kind', '=', 'index')
    .where('status', '=', 'pending')
    .execute()
  await runJobs(['index'])
  expect((await search({ q: 'omega' })).total).toBe(1)
  expect((await search({ q: 'alpha' })).results.map(({ document_id }) => document_id)).toEqual([id])
  // A job that comes late, and twice, finds nothing to bring back.
  await Promise.all([app.search.refresh([gone.id]), app.search.refresh([gone.id, id])])
  expect(await app.search.count()).toBe(1)
})

test('an index of several segments answers as one: newest first, sorted, filtered, similar; a deletion and a change reach their segment', async () => {
  const { app, put, search, asAda } = await start()
  const ids: string[] = []
  for (let nth = 0; nth < 6; nth++) {
    ids.push(await put({ title: `T${nth}`, content: 'word of a row 4711-0' }))
    await openSegment(app.db, 1, growingIndex)
  }
  const found = async (q: string) => (await search({ q })).results.map(({ document_id }) => document_id)
  for (const q of ['word', '"a row"', 'w', 'word -absent']) expect(await found(q), q).toEqual(ids.toReversed())
  const content = { field: 'content', type: 'contains', value: '711-0' } as const
  const tested = await asAda.search.advanced({ query: { must: [content] } })
  expect(tested.results.map(({ document_id }) => document_id)).toEqual(ids.toReversed())
  const sorted = await asAda.search.advanced({ query: { must: [content] }, sort: [{ field: 'title', order: 'asc' }] })
  expect(sorted.results.map(({ document_id }) => document_id)).toEqual(ids)
  expect(await asAda.search.similar(ids[0]!)).toHaveLength(5)
  await app.db.updateTable('documents').set({ content: 'other' }).where('id', '=', ids[2]!).execute()
  await app.search.refresh([ids[2]!])
  await app.db.deleteFrom('documents').where('id', '=', ids[4]!).execute()
  expect(await found('word')).toEqual([5, 3, 1, 0].map((nth) => ids[nth]))
  expect(await status(app)).toMatchObject({ documents: 5, drift: 0 })
})
