import { expect, test } from 'vitest'
import type { SearchResults } from '../../src/search/search.ts'
import { startApp } from '../support/app.ts'
import { seeded } from '../support/data/seeded.ts'
import { type Draft, insertDocument } from '../support/search-suite.ts'

type Clause = [field: string, value: string | number | boolean, type?: string]

const clause = ([field, value, type]: Clause) => ({ field, value, ...(type === undefined ? {} : { type }) })

async function start(settings?: Parameters<typeof startApp>[0]) {
  const all = await startApp(settings)
  const { app, ada, asAda } = all
  const search = (body: object, as = asAda) => as.call<SearchResults>('POST', '/api/search/advanced', body)
  return {
    ...all,
    put: async (draft: Draft, more: { metadata?: object; size?: number; sourceId?: string } = {}) => {
      const id = await insertDocument(app.db, ada.id, draft)
      const { metadata = {}, size = 1, sourceId = null } = more
      await app.db
        .updateTable('documents')
        .set({ metadata: JSON.stringify(metadata), size, source_id: sourceId })
        .where('id', '=', id)
        .execute()
      await app.search.refresh([id])
      return id
    },
    search,
    titles: async (query: { must?: Clause[]; should?: Clause[]; must_not?: Clause[] }, more: object = {}) => {
      const lists = Object.fromEntries(Object.entries(query).map(([name, list]) => [name, list.map(clause)]))
      return (await search({ query: lists, ...more })).results.map(({ title }) => title)
    },
    refused: async (body: unknown) => {
      const response = await asAda.send('POST', '/api/search/advanced', body)
      return [response.status, ((await response.json()) as { error?: { code: string } }).error?.code]
    },
  }
}

test('200 with the fields of GET: results, facets, pagination, time', async () => {
  const { put, search } = await start()
  const id = await put({ title: 'Lease <draft>', filename: 'lease.txt', content: 'A lease.', labels: ['House'] })
  await put({ title: 'Other', content: 'lease' })
  const { took_ms, ...answer } = await search({
    query: { must: [{ field: 'title', value: 'lease', type: 'match' }], should: [{ field: 'content', value: 'eas', type: 'contains' }] },
  })
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
          { field: 'content', snippet: 'A l<mark>eas</mark>e.' },
        ],
      },
    ],
    total: 1,
    total_capped: false,
    facets: { mime_types: { 'text/plain': 1 }, labels: { House: 1 }, years: {} },
    warnings: [],
    pagination: { page: 1, per_page: 20, total: 1, total_pages: 1, has_next: false, has_prev: false },
  })
  expect((await search({ query: { must: [{ field: 'title', value: 'lease' }] }, highlight: false })).results[0]?.highlights).toEqual([])
})

test('fields: match finds words in any order, contains a part of the text, exact the whole field or the phrase', async () => {
  const { put, titles } = await start()
  await put(
    {
      title: 'Köln Report',
      filename: 'scan_2026-03-17.final.pdf',
      content: 'Annual\n  Report, no. RE-2026/0815; 100% fine_print',
      labels: ['Tax 2026', 'House'],
      mimeType: 'application/pdf',
    },
    { metadata: { author: 'Ada Lovelace', page_count: 3, keywords: ['Übung', 'b'], draft: false, 'a.b': 'dotted' } },
  )
  await put({ title: 'Report', filename: 'other.txt', content: 'report annual of Köln', labels: ['Taxi'], status: 'failed' })
  const both = ['Köln Report', 'Report']
  const cases: [Clause, string[]][] = [
    [['title', 'report koln'], ['Köln Report']],
    [['title', 'annual'], []],
    [['title', 'repor'], []],
    [['title', 'OLN rep', 'contains'], ['Köln Report']],
    [['title', 'port', 'contains'], both],
    [['title', 'köln report', 'exact'], ['Köln Report']],
    [['title', 'REPORT', 'exact'], ['Report']],
    [['title', 'koln', 'exact'], []],
    [['content', 'koln annual'], ['Report']],
    [['content', 'report ANNUAL'], both],
    [['content', 'annual report', 'exact'], ['Köln Report']],
    [['content', 'nnual repo', 'contains'], ['Köln Report']],
    [['content', 'annual  report,', 'contains'], ['Köln Report']],
    [['content', 'annual, report', 'contains'], []],
    [['content', 'kol', 'contains'], ['Report']],
    [['content', '081', 'contains'], ['Köln Report']],
    [['content', '-2026/0', 'contains'], ['Köln Report']],
    [['content', '%', 'contains'], ['Köln Report']],
    [['content', '0%', 'contains'], ['Köln Report']],
    [['content', 'e_p', 'contains'], ['Köln Report']],
    [['content', 'f_ne', 'contains'], []],
    [['content', 'f.ne', 'contains'], []],
    [['content', '\\', 'contains'], []],
    [['filename', 'final'], ['Köln Report']],
    [['filename', '03-17.fin', 'contains'], ['Köln Report']],
    [['filename', 'OTHER.TXT', 'exact'], ['Report']],
    [['labels', '2026 tax'], ['Köln Report']],
    [['labels', 'tax', 'contains'], both],
    [['labels', 'x 20', 'contains'], ['Köln Report']],
    [['labels', 'tax', 'exact'], []],
    [['labels', 'TAXI', 'exact'], ['Report']],
    [['mime_type', 'pdf'], ['Köln Report']],
    [['mime_type', 'Application/PDF', 'exact'], ['Köln Report']],
    [['mime_type', 'ation/', 'contains'], ['Köln Report']],
    [['status', 'FAILED', 'exact'], ['Report']],
    [['status', 'completed'], ['Köln Report']],
    [['status', 'led', 'contains'], ['Report']],
    [['status', 'led'], []],
    [['metadata.author', 'lovelace'], ['Köln Report']],
    [['metadata.author', 'love'], []],
    [['metadata.author', 'A LOVE', 'contains'], ['Köln Report']],
    [['metadata.author', 'ada lovelace', 'exact'], ['Köln Report']],
    [['metadata.page_count', 3, 'exact'], ['Köln Report']],
    [['metadata.draft', false, 'exact'], ['Köln Report']],
    [['metadata.keywords', 'übung', 'exact'], ['Köln Report']],
    [['metadata.keywords', 'ubu', 'contains'], ['Köln Report']],
    [['metadata.a.b', 'dotted'], ['Köln Report']],
    [['metadata.none', 'x', 'contains'], []],
    [['any', 'taxi annual'], ['Report']],
    [['any', 'ther.t', 'contains'], ['Report']],
    [['any', 'x 2026', 'contains'], ['Köln Report']],
    [['any', 'final', 'contains'], ['Köln Report']],
    [['any', 'koln report', 'exact'], ['Köln Report']],
    [['content', '?!'], []],
    [['content', '?!', 'exact'], []],
  ]
  const what = cases.map(([one]) => one.join(' '))
  const found: string[] = []
  const missed: string[] = []
  for (const [one, expected] of cases) {
    found.push(`${one.join(' ')}: ${(await titles({ must: [one] })).sort()}`)
    missed.push(`${one.join(' ')}: ${(await titles({ must_not: [one] })).sort()}`)
    expect((await titles({ should: [one] })).sort(), `should ${one}`).toEqual(expected)
  }
  expect(found).toEqual(cases.map(([, expected], index) => `${what[index]}: ${expected}`))
  expect(missed).toEqual(cases.map(([, expected], index) => `${what[index]}: ${both.filter((title) => !expected.includes(title))}`))
})

test('200 for exact values in capital letters: the final sigma of Greek, the i with a dot of Turkish', async () => {
  const { put, titles } = await start()
  await put({ title: 'Λογαριασμός', filename: 'kira.pdf', labels: ['Kira', 'Οδός'] }, { metadata: { street: 'Οδός' } })
  for (const [field, value] of [
    ['title', 'ΛΟΓΑΡΙΑΣΜΌΣ'],
    ['filename', 'KİRA.PDF'],
    ['labels', 'KİRA'],
    ['labels', 'ΟΔΌΣ'],
    ['metadata.street', 'ΟΔΌΣ'],
  ] as const)
    expect([value, await titles({ must: [[field, value, 'exact']] })]).toEqual([value, ['Λογαριασμός']])
})

test('source_id: exact with an id in any case; an unknown one finds nothing', async () => {
  const { app, ada, put, titles } = await start()
  const sourceId = '01928c3e-5c7a-7b52-9d6e-3f1a2b4c5d6e'
  await app.db.insertInto('sources').values({ id: sourceId, owner_id: ada.id, name: 'Share', type: 'local_folder', url: '/srv' }).execute()
  await put({ title: 'From' }, { sourceId })
  await put({ title: 'Without' })
  expect(await titles({ must: [['source_id', sourceId.toUpperCase(), 'exact']] })).toEqual(['From'])
  expect(await titles({ must: [['source_id', sourceId]] })).toEqual(['From'])
  expect(await titles({ must: [['source_id', '7b52-9d', 'contains']] })).toEqual(['From'])
  for (const value of ['x', "1'--", '%']) expect(await titles({ must: [['source_id', value, 'exact']] })).toEqual([])
  expect(await titles({ must_not: [['source_id', '-', 'contains']] })).toEqual(['Without'])
})

test('must requires all, must_not none, should at least one without must, else it only ranks', async () => {
  const { put, titles } = await start()
  await put({ title: 'A', content: 'red blue' })
  await put({ title: 'B', content: 'red green' }, { metadata: { kind: 'note' } })
  await put({ title: 'C', content: 'green' })
  expect((await titles({ must: [['content', 'red']] })).sort()).toEqual(['A', 'B'])
  expect(
    await titles({
      must: [
        ['content', 'red'],
        ['content', 'ree', 'contains'],
      ],
    }),
  ).toEqual(['B'])
  expect(
    (
      await titles({
        should: [
          ['content', 'blue'],
          ['title', 'C', 'exact'],
        ],
      })
    ).sort(),
  ).toEqual(['A', 'C'])
  expect(await titles({ must: [['content', 'red']], should: [['content', 'blue']] })).toEqual(['A', 'B'])
  expect(await titles({ must: [['content', 'red']], should: [['metadata.kind', 'note']] })).toEqual(['B', 'A'])
  expect(await titles({ must: [['content', 'red']], must_not: [['content', 'blu', 'contains']] })).toEqual(['B'])
  expect(await titles({ should: [['content', 'green']], must_not: [['title', 'b']] })).toEqual(['C'])
  expect(await titles({ must_not: [['metadata.kind', 'note', 'exact']] })).toEqual(['C', 'A'])
})

test('equal conditions count once: the default type is match', async () => {
  const { put, search } = await start()
  await put({ title: 'A', content: 'red blue' })
  await put({ title: 'B', content: 'red green green' })
  const scores = async (...should: Clause[]) =>
    (await search({ query: { should: should.map(clause) } })).results.map(({ title, score }) => [title, score])
  const once = await scores(['content', 'red'], ['content', 'green'])
  expect(await scores(['content', 'red'], ['content', 'green'], ['content', 'red', 'match'])).toEqual(once)
  expect(await scores(['content', 'red'], ['content', 'green'], ['title', 'red'])).not.toEqual(once)
})

test('without conditions it lists what passes the filters, newest first', async () => {
  const { put, search, titles, asBob } = await start()
  await put({ title: 'A', mimeType: 'image/png', confidence: 0.4, createdAt: new Date('2026-03-01T12:00:00Z') })
  await put({ title: 'B', labels: ['Red'], confidence: 0.9, createdAt: new Date('2026-03-02T12:00:00Z') })
  expect(await titles({})).toEqual(['B', 'A'])
  expect((await search({})).total).toBe(2)
  expect((await search({}, asBob)).total).toBe(0)
  expect(await titles({}, { filters: { mime_types: ['image/png'] } })).toEqual(['A'])
  expect(await titles({}, { filters: { min_confidence: 0.5 } })).toEqual(['B'])
  await put({ title: 'C', createdAt: new Date('2026-03-03T12:00:00Z') })
  expect(await titles({}, { filters: { min_confidence: 0 } })).toEqual(['C', 'B', 'A'])
  expect(await titles({}, { filters: { labels: ['red'] } })).toEqual(['B'])
  expect(await titles({}, { filters: { date_range: { from: '2026-03-01', to: '2026-03-01' } } })).toEqual(['A'])
  expect(await titles({}, { filters: { labels: ['none'] } })).toEqual([])
})

test('sorted by date over years, in both directions, also behind the months of the hint', async () => {
  const { put, search } = await start({ 'limits.search_max_results': 12 })
  const years = [2026, 1999, 1970, 2024, 1815, 2038, 2025, 2010, 2016, 2022]
  for (const year of years) await put({ title: `x ${year}`, content: 'x', createdAt: new Date(Date.UTC(year, year % 12, 5)) })
  await put({ title: 'y', content: 'y', createdAt: new Date('2040-01-01T00:00:00Z') })
  const inOrder = years.toSorted((one, other) => one - other).map((year) => `x ${year}`)
  const sorted = async (order: string, how: object = {}) => {
    const { results, total, total_capped } = await search({
      query: { must: [{ field: 'content', value: 'x', type: 'match' }] },
      sort: [{ field: 'created_at', order }],
      per_page: 100,
      ...how,
    })
    return { titles: results.map(({ title }) => title), total, total_capped }
  }
  expect(await sorted('asc')).toEqual({ titles: inOrder, total: 10, total_capped: false })
  expect(await sorted('desc')).toEqual({ titles: inOrder.toReversed(), total: 10, total_capped: false })
  const from = { filters: { date_range: { from: '2020-01-01', to: '2030-12-31' } } }
  expect((await sorted('desc', from)).titles).toEqual(['x 2026', 'x 2025', 'x 2024', 'x 2022'])
  for (let nth = 0; nth < 5; nth++) await put({ title: `x 2025 ${nth}`, content: 'x', createdAt: new Date(Date.UTC(2025, 11, 5 + nth)) })
  expect(await sorted('desc')).toMatchObject({
    titles: expect.not.arrayContaining(['x 1815', 'x 1970', 'x 1999']),
    total: 12,
    total_capped: true,
  })
  expect((await sorted('asc')).titles.slice(0, 3)).toEqual(['x 1815', 'x 1970', 'x 1999'])
})

test('sorted by several fields, the best of all within the window; ties by id', async () => {
  const { put, search } = await start({ 'limits.search_max_results': 3 })
  const ids: Record<string, string> = {}
  for (const [title, size, confidence, day] of [
    ['d', 1, 0.1, 4],
    ['b', 2, 0.9, 3],
    ['c', 2, undefined, 2],
    ['a', 3, 0.5, 1],
  ] as const)
    ids[title] = await put(
      { title, content: 'x', ...(confidence === undefined ? {} : { confidence }), createdAt: new Date(`2026-03-0${day}T00:00:00Z`) },
      { size },
    )
  const sorted = async (...sort: [field: string, order?: string][]) =>
    (await search({ sort: sort.map(([field, order]) => ({ field, ...(order ? { order } : {}) })) })).results
      .map(({ title }) => title)
      .join('')
  expect(await sorted(['title', 'asc'])).toBe('abc')
  expect(await sorted(['title'])).toBe('dcb')
  expect(await sorted(['size', 'desc'], ['title', 'asc'])).toBe('abc')
  expect(await sorted(['size', 'asc'], ['created_at', 'asc'])).toBe('dcb')
  expect(await sorted(['ocr_confidence', 'desc'])).toBe('bad')
  expect(await sorted(['ocr_confidence', 'asc'])).toBe('cda')
  expect(await sorted(['created_at', 'asc'])).toBe('acb')
  expect(await sorted(['updated_at', 'asc'], ['title', 'asc'])).toHaveLength(3)
  expect(await sorted(['score'], ['title', 'asc'])).toBe('abc')
  const page = await search({
    query: { must: [{ field: 'content', value: 'x' }] },
    sort: [{ field: 'title', order: 'asc' }],
    page: 2,
    per_page: 2,
  })
  expect([page.results.map(({ title }) => title), page.total, page.total_capped, page.pagination.total_pages]).toEqual([['c'], 3, true, 2])
  expect(
    (await search({ query: { must: [{ field: 'content', value: 'x' }] }, sort: [{ field: 'size' }] })).results.map(
      ({ document_id }) => document_id,
    ),
  ).toEqual([ids.a, ids.c, ids.b])
})

test('a user never finds a document of another; an admin finds all; 401 without a token', async () => {
  const { put, search, asBob, asAdmin, asStranger, ada } = await start()
  const id = await put({ title: 'Diary', content: 'secret thoughts', labels: ['Private'] }, { metadata: { mood: 'dark' } })
  const queries = [
    { must: [{ field: 'content', value: 'secret' }] },
    { must: [{ field: 'content', value: 'ecre', type: 'contains' }] },
    { must: [{ field: 'content', value: 'secret t', type: 'contains' }] },
    {
      should: [
        { field: 'title', value: 'diary', type: 'exact' },
        { field: 'metadata.mood', value: 'dark' },
      ],
    },
    { must_not: [{ field: 'title', value: 'nothing' }] },
    { must: [{ field: 'labels', value: 'private', type: 'exact' }] },
    { must: [{ field: 'any', value: `~o${ada.id}` }] },
    {},
  ]
  for (const query of queries) {
    for (const filters of [{}, { owner: 'ada' }, { owner: ada.id }]) {
      const { results, total, facets } = await search({ query, filters, sort: [{ field: 'title' }] }, asBob)
      expect({ results, total, facets }).toEqual({ results: [], total: 0, facets: { mime_types: {}, labels: {}, years: {} } })
    }
  }
  expect((await search({ query: queries[0] }, asAdmin)).results.map(({ document_id }) => document_id)).toEqual([id])
  expect((await search({ filters: { owner: 'bob' } }, asAdmin)).total).toBe(0)
  expect((await asStranger.send('POST', '/api/search/advanced', {})).status).toBe(401)
})

test('400 VALIDATION_ERROR for unknown fields and types, invalid values, sorts and pages', async () => {
  const { refused, titles } = await start()
  const of = (one: object) => ({ query: { must: [one] } })
  const many = (count: number, value = 'x') => Array.from({ length: count }, () => ({ field: 'title', value }))
  const bad = [
    [],
    'x',
    { query: 'x' },
    { query: { must: {} } },
    ...[
      'password_hash',
      'owner_id',
      'user.password',
      'constructor',
      '__proto__',
      'metadata',
      'metadata.',
      'title"--',
      '',
      1,
      `metadata.${'k'.repeat(256)}`,
      'metadata.a\0',
    ].map((field) => of({ field, value: 'x', type: 'exact' })),
    ...['', '  ', 'x'.repeat(1001), 'a\0b', '\ud800', null, {}, ['x'], undefined].map((value) => of({ field: 'title', value })),
    ...['prefix', 'regex', '', null].map((type) => of({ field: 'title', value: 'x', type })),
    { query: { must: many(101) } },
    { query: { must: many(60), should: many(41) } },
    { query: { must: many(11, 'x'.repeat(1000)) } },
    ...['title"--', '(select pg_sleep(5))', 'password_hash', 'filename', 'constructor', '', null].map((field) => ({ sort: [{ field }] })),
    ...['x', 'asc,(select 1)', '', 1].map((order) => ({ sort: [{ field: 'title', order }] })),
    { sort: { field: 'title' } },
    { sort: Array.from({ length: 8 }, () => ({ field: 'title' })) },
    { filters: { colour: 'red' } },
    { filters: { mime_types: 'a' } },
    { filters: { date_range: { from: 'yesterday' } } },
    ...[{ page: 0 }, { page: '1' }, { page: 1.5 }, { page: 1e9 }, { per_page: 101 }, { per_page: -1 }, { highlight: 'yes' }, { page: 51 }],
  ]
  for (const body of bad) expect(await refused(body), JSON.stringify(body)?.slice(0, 100)).toEqual([400, 'VALIDATION_ERROR'])
  for (const most of [many(100), many(10, 'x'.repeat(1000)), many(10, '𝒳'.repeat(1000))])
    expect(await titles({ must: most.map(({ field, value }): Clause => [field, value]) })).toEqual([])
})

test('odd values are searched for as they are', async () => {
  const { put, search } = await start()
  const odd = [
    '%',
    '_',
    '\\',
    "'",
    '"',
    'foo & | !(',
    ':*',
    '***=x',
    '(?i)x',
    '(?=x)',
    '[a',
    'a{1',
    '$1',
    '\\y',
    '^',
    '<b>',
    '💥',
    '\u202e',
    'é',
    'e\u0301',
    'ﬁ',
    '漢字',
    '\u00ad',
  ]
  const ids = new Map<string, string>()
  for (const text of odd) ids.set(text, await put({ title: `x ${text} y`, content: `before${text}after` }, { metadata: { note: text } }))
  for (const value of odd) {
    for (const type of ['match', 'contains', 'exact'])
      for (const field of ['title', 'content', 'filename', 'labels', 'any', 'mime_type', 'status', 'source_id', `metadata.${value}`])
        await search({ query: { must: [{ field, value, type }], must_not: [{ field: 'content', value: 'absent' }] } })
    if (value === '\u00ad') continue
    for (const field of ['title', 'content', 'metadata.note']) {
      const { results } = await search({ query: { must: [{ field, value, type: 'contains' }] }, per_page: 100 })
      expect(
        results.map(({ document_id }) => document_id),
        `${field} ${value}`,
      ).toContain(ids.get(value))
      if (field !== 'metadata.note') expect(results[0]?.highlights[0]?.snippet, value).toContain('<mark>')
    }
    const exact = await search({ query: { must: [{ field: 'metadata.note', value, type: 'exact' }] } })
    expect(
      exact.results.map(({ document_id }) => document_id),
      value,
    ).toContain(ids.get(value))
  }
})

test('finds exactly what reading every document finds', async () => {
  const { put, titles } = await start()
  const random = seeded(5)
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)]!
  const some = (most: number, make: () => string) => Array.from({ length: 1 + Math.floor(random() * most) }, make).join('')
  const text = (most: number) =>
    some(most, () => pick(['ab', 'ba', 'abc', 'c4', '7', 'é', 'X']) + pick(['', '', ' ', ' ', '\n', ', ', ' (']))
  const documents: { title: string; content: string }[] = []
  for (let count = 0; count < 25; count++) {
    const document = { title: `${text(4)}#${count}`, content: text(30) }
    documents.push(document)
    await put(document)
  }
  const plain = (value: string) => value.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().replace(/\s+/g, ' ')
  const wordsOf = (value: string): string[] => plain(value).match(/[a-z\d]+/g) ?? []
  const holds = (value: string, [, wanted, type]: Clause) => {
    const asked = wordsOf(String(wanted))
    if (type === 'contains') return plain(value).includes(plain(String(wanted)))
    if (type === 'match') return asked.length > 0 && asked.every((word) => wordsOf(value).includes(word))
    return asked.length > 0 && ` ${wordsOf(value).join(' ')} `.includes(` ${asked.join(' ')} `)
  }
  const clauses = (most: number): Clause[] =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => {
      const field = pick(['title', 'content'])
      const type = field === 'title' ? pick(['match', 'contains']) : pick(['match', 'contains', 'contains', 'exact'])
      const value = text(2)
      return [field, type === 'contains' ? value : value.trim(), type]
    })
  let found = 0
  for (let round = 0; round < 150; round++) {
    const query = { must: clauses(2), should: clauses(2), must_not: clauses(1) }
    const expected = documents.filter((document) => {
      const passes = (one: Clause) => holds(document[one[0] as 'title' | 'content'], one)
      const isFound = query.must.length > 0 || query.should.length === 0 || query.should.some(passes)
      return query.must.every(passes) && isFound && !query.must_not.some(passes)
    })
    found += Number(expected.length > 0 && expected.length < documents.length)
    expect((await titles(query, { per_page: 100 })).sort(), JSON.stringify(query)).toEqual(expected.map(({ title }) => title).sort())
  }
  expect(found).toBeGreaterThan(70)
})

test('200 for a value of the maximum length in any field, whatever its bytes', async () => {
  const { put, titles } = await start()
  await put({ title: 'One' })
  for (const field of ['any', 'title', 'labels', 'filename', 'content', 'mime_type', 'status', 'source_id', 'metadata.number'])
    for (const type of ['match', 'contains', 'exact']) expect(await titles({ must: [[field, '💥'.repeat(1000), type]] }), field).toEqual([])
})

test('contains finds a character in the first 100,000 of the content, whatever their bytes', async () => {
  const { put, titles } = await start()
  await put({ title: 'Short', content: 'a § b' })
  await put({ title: 'Inside', content: `${'é'.repeat(60_000)} §` })
  await put({ title: 'Beyond', content: `${'é'.repeat(100_000)} §` })
  expect((await titles({ must: [['content', '§', 'contains']] })).sort()).toEqual(['Inside', 'Short'])
})

test('long documents: fields, phrases and parts at any place, and no false ones', async () => {
  const { put, titles, search } = await start()
  const middle = Array.from({ length: 20_000 }, (_, index) => `the w${index % 5000} of`).join(' ')
  await put({ title: 'Long story', content: `first of all ${middle} hidden treasure, found ${middle} at the very end` })
  await put({ title: 'Hidden', content: 'short story of treasure' })
  await put({ title: 'W31', content: 'w25' })
  await put({ title: 'Short', content: 'W21' })
  // Too long to be listed, and its beginning is in the title besides.
  await put({ title: 'Zzyx', content: `Zzyx${'abcd'.repeat(20)}` })
  await put({ title: 'Zzyxa', content: 'xZzy' })
  const cases: [Clause, string[]][] = [
    [['content', 'hidden'], ['Long story']],
    [['title', 'hidden'], ['Hidden']],
    [['title', 'treasure'], []],
    [['content', 'story'], ['Hidden']],
    [['content', 'hidden treasure', 'exact'], ['Long story']],
    [['content', 'treasure hidden', 'exact'], []],
    [
      ['content', 'reasur', 'contains'],
      ['Hidden', 'Long story'],
    ],
    [['content', 'dden trea', 'contains'], ['Long story']],
    [['content', 'treasure, fou', 'contains'], ['Long story']],
    [['content', 'treasure found', 'contains'], []],
    [['content', 'he very en', 'contains'], ['Long story']],
    [['title', 'ong st', 'contains'], ['Long story']],
    // More words have this piece than are looked for.
    [
      ['content', '1', 'contains'],
      ['Long story', 'Short'],
    ],
    [['title', '1', 'contains'], ['W31']],
    [['content', '1 of the w12', 'contains'], ['Long story']],
    [['content', '31', 'contains'], ['Long story']],
    [['content', 'zzyx', 'contains'], ['Zzyx']],
    [
      ['content', 'zzy', 'contains'],
      ['Zzyx', 'Zzyxa'],
    ],
  ]
  for (const [one, expected] of cases) {
    expect((await titles({ must: [one] })).sort(), `must ${one}`).toEqual(expected)
    expect((await titles({ should: [one] })).sort(), `should ${one}`).toEqual(expected)
    expect((await titles({ must_not: [one] })).sort(), `must_not ${one}`).toEqual(
      ['Hidden', 'Long story', 'Short', 'W31', 'Zzyx', 'Zzyxa'].filter((title) => !expected.includes(title)),
    )
  }
  const { results } = await search({ query: { must: [{ field: 'content', value: 'dden trea', type: 'contains' }] } })
  expect(results[0]?.highlights[0]?.snippet).toContain('hi<mark>dden trea</mark>sure')
})

test('a text of spaces is read in linear time', async () => {
  const { put, search } = await start()
  await put({ title: 'Spaces', content: `a${' '.repeat(1_000_000)}(b c` })
  for (const value of [' (b', 'a (b ', '  (b   c']) {
    const { total, took_ms, results } = await search({ query: { must: [{ field: 'content', value, type: 'contains' }] } })
    expect([total, took_ms < 3000], value).toEqual([1, true])
    expect(results[0]?.highlights[0]?.snippet.length).toBeLessThan(5000)
  }
})

test('200 with a snippet of a sign without words, from whatever part of a long text it is', async () => {
  const { put, search } = await start()
  await put({ content: `${'ab '.repeat(20_000)}§ 12` })
  const { results } = await search({ query: { must: [{ field: 'content', type: 'contains', value: '§' }] } })
  expect(results.map(({ highlights }) => highlights)).toEqual([
    [{ field: 'content', snippet: expect.stringContaining('<mark>§</mark> 12') }],
  ])
})

test('200 without documents whose title or filename contains a value only without its hyphen', async () => {
  const { put, titles } = await start()
  await put({ title: 'E-Mail an Bank', filename: 'e-mail.txt', content: 'x' })
  await put({ title: 'Email', filename: 'webmail_email.txt', content: 'x' })
  for (const field of ['title', 'filename']) {
    expect(await titles({ must: [[field, 'email', 'contains']] })).toEqual(['Email'])
    expect(await titles({ must_not: [[field, 'email', 'contains']] })).toEqual(['E-Mail an Bank'])
    expect((await titles({ must: [[field, 'mail', 'contains']] })).sort()).toEqual(['E-Mail an Bank', 'Email'])
  }
})
