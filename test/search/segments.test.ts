/** The index in many small segments compared with one segment: results never depend on segments. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import {
  type AdvancedQuery,
  noFilter,
  type SearchAnswer,
  type SearchEngine,
  type SearchFilter,
  type SearchSort,
} from '../../src/ports/search-engine.ts'
import { openPostgres } from '../../src/search/engines/postgres/engine.ts'
import { startApp } from '../support/app.ts'
import { seeded } from '../support/data/seeded.ts'
import { insertDocument, label } from '../support/search-suite.ts'

const vocabulary = ['alpha', 'beta', 'gamma', 'delta', 'invoice', 'invoices', 'harbour', 'tenancy', 'report', 'annual', 'in', 'kitchen']

async function start() {
  const { app, ada, bob } = await startApp({ 'search.engine': 'postgres' })
  const random = seeded(7)
  const below = (limit: number) => Math.floor(random() * limit)
  const some = (count: number) => Array.from({ length: count }, () => vocabulary[below(vocabulary.length)]).join(' ')
  const texts = new Map<string, string>()
  const put = async () => {
    const nth = texts.size
    // Now and then a long one, which is indexed in passages.
    const content = nth % 20 === 11 ? `${some(30)} ${'filler '.repeat(16_200)} ${some(30)}` : some(3 + below(25))
    const title = some(1 + below(3))
    const id = await insertDocument(app.db, below(4) === 0 ? bob.id : ada.id, {
      title,
      filename: `${some(1)}.txt`,
      content,
      labels: ['Red', 'Green', 'Blue'].filter(() => below(3) === 0),
      mimeType: ['text/plain', 'application/pdf', 'image/png'][below(3)]!,
      status: below(5) === 0 ? 'failed' : 'completed',
      createdAt: new Date(Date.UTC(2024, below(24), 1 + below(28))),
      ...(below(3) === 0 ? {} : { confidence: below(100) / 100 }),
    })
    await sql`update documents set size = ${below(20)}, updated_at = created_at + ${below(50)} * interval '1 day' where id = ${id}`.execute(
      app.db,
    )
    texts.set(id, ` ${title} | ${content} `)
    return id
  }
  const ids: string[] = []
  for (let nth = 0; nth < 36; nth++) ids.push(await put())
  return { app, ada, bob, ids, texts, put, red: await label(app.db, 'Red') }
}

type Ground = Awaited<ReturnType<typeof start>>

/** Reindexes all documents in segments of this size. Returns the number of segments. */
async function remake({ app }: Ground, size: number | ((left: number) => number)): Promise<number> {
  const made = await openPostgres(app.db, { sizeFor: typeof size === 'number' ? () => size : size }).rebuild()
  const rows = await app.db.selectFrom('documents').select('id').orderBy('id').execute()
  await made.put(rows.map(({ id }) => id))
  expect(await made.complete()).toBe(rows.length)
  await made.swap()
  return segmentCount(app)
}

async function segmentCount(app: Ground['app']): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer from search_segments join search_generation on generation = search_generation.number`.execute(app.db)
  return rows[0]!.count
}

const texts = [
  'invoice', 'harbour tenancy', 'alpha beta gamma', '"annual report"', '"in kitchen"', 'in', 'inv', 'delta -beta', '-alpha -beta', 'alpha OR kitchen', 'title:report', 'title:annual alpha',
  'content:harbour', 'harbuor', 'invoice anual', 'filler', '"filler alpha"', 'nowhere', 'e',
] // biome-ignore format: one line says as much

const sorts: SearchSort[][] = [
  [{ field: 'score', order: 'asc' }],
  ...(['created_at', 'updated_at', 'title', 'size', 'ocr_confidence'] as const).flatMap((field) =>
    (['asc', 'desc'] as const).map((order): SearchSort[] => [{ field, order }]),
  ),
  [
    { field: 'size', order: 'desc' },
    { field: 'score', order: 'desc' },
  ],
  [
    { field: 'score', order: 'desc' },
    { field: 'title', order: 'asc' },
  ],
]

const byScore: SearchSort[] = [{ field: 'score', order: 'desc' }]

const conditions = [
  { must: [{ field: 'any', value: 'alpha', type: 'match' }], should: [{ field: 'title', value: 'beta', type: 'match' }] },
  { should: [{ field: 'content', value: 'harbour', type: 'match' }, { field: 'title', value: 'report', type: 'match' }], mustNot: [{ field: 'any', value: 'delta', type: 'match' }] },
  { must: [{ field: 'content', value: 'itche', type: 'contains' }] },
  { must: [{ field: 'content', value: 'ual rep', type: 'contains' }] },
  { must: [{ field: 'title', value: 'annual report', type: 'exact' }] },
  { must: [{ field: 'content', value: 'annual report', type: 'exact' }] },
  { must: [{ field: 'labels', value: 're', type: 'contains' }], mustNot: [{ field: 'status', value: 'failed', type: 'exact' }] },
  { must: [{ field: 'mime_type', value: 'text', type: 'contains' }] },
  {},
] as const // biome-ignore format: one line says as much

/** Returns every query of the test with its results. */
async function answers(engine: SearchEngine, { ada, bob, red }: Ground): Promise<Map<string, SearchAnswer>> {
  const filters: Partial<SearchFilter>[] = [
    {},
    { ownerId: ada.id },
    { ownerId: bob.id, notMimeTypes: ['image/png'] },
    { mimeTypes: ['image/*', 'text/plain'], status: ['completed'] },
    { labelIds: [red] },
    { notLabelIds: [red], from: new Date(Date.UTC(2024, 5, 1)), to: new Date(Date.UTC(2025, 5, 1)) },
    { minConfidence: 0.5, from: new Date(Date.UTC(2025, 0, 1)) },
  ]
  const all = new Map<string, SearchAnswer>()
  const window = { offset: 0, limit: 100, maxResults: 1000 }
  /** without a filter, and with each of the others */
  const filtered = (nth: number) => [filters[0]!, filters[1 + (nth % (filters.length - 1))]!].map((filter) => ({ ...noFilter, ...filter }))
  for (const [nth, text] of texts.entries()) {
    for (const [which, filter] of filtered(nth).entries()) {
      all.set(`${text} / ${which}`, await engine.search({ text, fuzzy: nth % 2 === 1, highlight: true, filter, ...window }))
    }
  }
  for (const [nth, condition] of conditions.entries()) {
    const query = { must: [], should: [], mustNot: [], highlight: true, sort: byScore, ...condition, ...window }
    for (const [which, filter] of filtered(nth).entries())
      all.set(`condition ${nth} / ${which}`, await engine.advanced({ ...query, filter }))
  }
  for (const [nth, sort] of sorts.entries()) {
    const query = {
      must: [],
      should: [],
      mustNot: [],
      highlight: false,
      sort,
      filter: noFilter,
      ...conditions[nth % conditions.length],
      ...window,
    }
    all.set(`sort ${nth}`, await engine.advanced(query))
    // Fewer than there are, and a page of them: the first in that order all the same.
    if (sort[0]!.field !== 'score') all.set(`sort ${nth}, capped`, await engine.advanced({ ...query, maxResults: 10, offset: 3, limit: 5 }))
  }
  return all
}

function expectSame(found: ReadonlyMap<string, SearchAnswer>, expected: ReadonlyMap<string, SearchAnswer>, where: string) {
  for (const [asked, answer] of expected) expect(found.get(asked), `${asked}, ${where}`).toEqual(answer)
}

test('an index of many segments answers as one segment: words, filters, conditions, orders, pages and facets; also after growth and deletions', async () => {
  const ground = await start()
  const { app, ids, put, texts } = ground
  const engine = openPostgres(app.db)
  expect(await remake(ground, 1000)).toBe(1)
  const whole = await answers(engine, ground)

  // That the one segment is right is seen in the texts themselves.
  const having = (...words: string[]) => ids.filter((id) => words.every((word) => texts.get(id)!.includes(` ${word} `)))
  const found = (asked: string) => whole.get(asked)!.hits.map(({ document_id }) => document_id)
  expect(found('"annual report" / 0').toSorted()).toEqual(having('annual report').toSorted())
  expect(whole.get('filler / 0')!.hits).toHaveLength(2)
  for (const [asked, { hits, total, facets }] of whole) {
    if (asked.endsWith('capped')) continue
    expect(total, asked).toBe(hits.length)
    expect(
      Object.values(facets.mime_types).reduce((sum, count) => sum + count, 0),
      asked,
    ).toBe(total)
  }

  expect(await remake(ground, 3)).toBe(12)
  expectSame(await answers(engine, ground), whole, 'cut')
  const paged: string[] = []
  for (let offset = 0; offset < 42; offset += 7) {
    const query = { text: 'in', fuzzy: false, highlight: false, filter: noFilter, offset, limit: 7, maxResults: 1000 }
    paged.push(...(await engine.search(query)).hits.map(({ document_id }) => document_id))
  }
  expect(paged).toEqual(found('in / 0'))

  // 18, 9, 5, 3 and 1
  expect(await remake(ground, (left) => Math.max(3, Math.ceil(left / 2)))).toBe(5)
  expectSame(await answers(engine, ground), whole, 'the older half in one')

  expect(await remake(ground, 5)).toBe(8)
  const growing = openPostgres(app.db, { sizeFor: () => 5 })
  const added: string[] = []
  for (let nth = 0; nth < 22; nth++) {
    const id = await put()
    await growing.refresh([id])
    added.push(id)
  }
  expect(await segmentCount(app)).toBe(12)
  const gone = [...ids, ...added].filter((_, nth) => nth % 7 === 3)
  await app.db.deleteFrom('documents').where('id', 'in', gone).execute()
  const changed = [...ids, ...added].filter((id, nth) => nth % 6 === 1 && !gone.includes(id))
  await app.db.updateTable('documents').set({ title: 'harbour report', mime_type: 'image/png' }).where('id', 'in', changed).execute()
  await growing.refresh([...changed, ...gone])
  const grown = await answers(engine, ground)
  expect(await engine.count()).toBe(58 - gone.length)
  // What a killed build leaves is replaced.
  const { rows: left } = await sql<{ number: number }>`
    select number from search_segments where to_regclass('search_segment_' || number || '_growing') is not null order by from_id limit 1`.execute(
    app.db,
  )
  const table = `search_segment_${left[0]!.number}`
  await sql`create index ${sql.id(`${table}_complete`)} on ${sql.table(table)} (version)`.execute(app.db)
  // Two workers at once.
  await Promise.all([growing.optimize(), openPostgres(app.db, { sizeFor: () => 5 }).optimize()])
  expect(await indexedColumns(app)).toEqual([...Array(11).fill('deferred_tags tags words'), 'tags words'])
  expectSame(await answers(engine, ground), grown, 'optimized')
  expect(await remake(ground, 1000)).toBe(1)
  expectSame(grown, await answers(engine, ground), 'grown')
}, 180_000)

/** Returns the columns in the GIN index of each live segment, oldest first. A segment with two such indexes has two rows. */
async function indexedColumns(app: Ground['app']): Promise<string[]> {
  const { rows } = await sql<{ columns: string }>`
    select (select string_agg(attname, ' ' order by attname) from pg_attribute where attrelid = indexrelid) as columns
    from search_segments join search_generation on generation = search_generation.number
      join pg_index on indrelid = ('search_segment_' || search_segments.number)::regclass and not indisprimary
    order by from_id`.execute(app.db)
  return rows.map(({ columns }) => columns)
}

test('segments of earlier versions, with all tags in one column, answer as others do and take changes', async () => {
  const ground = await start()
  const { app, ids } = ground
  const engine = openPostgres(app.db)
  expect(await remake(ground, 1000)).toBe(1)
  const whole = await answers(engine, ground)
  expect(await remake(ground, 5)).toBe(8)
  const { rows: segments } = await sql<{ number: number }>`
    select search_segments.number from search_segments join search_generation on generation = search_generation.number order by from_id`.execute(
    app.db,
  )
  for (const { number } of segments.slice(0, 5)) {
    const table = sql.table(`search_segment_${number}`)
    await sql`drop index ${sql.id(`search_segment_${number}_complete`)}`.execute(app.db)
    await sql`update ${table} set tags = deferred_tags || tags`.execute(app.db)
    await sql`alter table ${table} drop column deferred_tags`.execute(app.db)
    await sql`create index on ${table} using gin (words, tags)`.execute(app.db)
    await sql`update search_segments set has_deferred_tags = false where number = ${number}`.execute(app.db)
  }
  expectSame(await answers(openPostgres(app.db), ground), whole, 'mixed')
  await engine.refresh(ids)
  await engine.optimize()
  expectSame(await answers(engine, ground), whole, 'written again')
  expect(await indexedColumns(app)).toEqual([...Array(5).fill('tags words'), ...Array(2).fill('deferred_tags tags words'), 'tags words'])
}, 180_000)

test('with more matches than are ranked the best of all segments are found, and the cap is reported', async () => {
  const { app, ada } = await startApp({ 'search.engine': 'postgres' })
  const engine = openPostgres(app.db)
  const drafts = [
    { title: 'lease lease lease', content: 'lease' },
    { title: 'lease', filename: 'lease.txt', content: 'nothing' },
    { title: 'lease', content: 'nothing' },
    { title: 'untitled', content: `${'lease '.repeat(5)}${'number '.repeat(5)}` },
    { title: 'untitled', content: 'rent', labels: ['lease'] },
  ]
  const best: string[] = []
  for (const draft of drafts) best.push(await insertDocument(app.db, ada.id, draft))
  const others: string[] = []
  for (let nth = 0; nth < 165; nth++)
    others.push(await insertDocument(app.db, ada.id, { title: `number ${nth}`, content: 'some lease of many' }))
  const ground = { app } as Ground
  for (const [size, segments] of [
    [1000, 1],
    [10, 17],
    [2, 85],
  ] as const) {
    expect(await remake(ground, size)).toBe(segments)
    const ask = (text: string, limit = 100, maxResults = 12) =>
      engine.search({ text, fuzzy: false, highlight: false, filter: noFilter, offset: 0, limit, maxResults })
    const { hits, total, isCapped, facets } = await ask('lease')
    const ids = hits.map(({ document_id }) => document_id)
    expect(ids.slice(0, 5), `${segments} segments`).toEqual([0, 1, 2, 4, 3].map((nth) => best[nth]))
    expect(ids.slice(5)).toEqual(others.slice(-7).toReversed())
    expect({ total, isCapped, facets }).toEqual({
      total: 12,
      isCapped: true,
      facets: { mime_types: { 'text/plain': 12 }, labels: { lease: 1 }, years: {} },
    })
    const all = await ask('lease', 170, 1000)
    expect(all.hits.map(({ document_id }) => document_id)).toEqual([...ids.slice(0, 5), ...others.toReversed()])
    expect({ ...all, hits: [] }).toEqual({
      hits: [],
      total: 170,
      isCapped: false,
      facets: { mime_types: { 'text/plain': 170 }, labels: { lease: 1 }, years: {} },
    })
    const inTitle = await ask('title:number', 100, 12)
    expect([inTitle.total, inTitle.hits.some(({ document_id }) => best.includes(document_id))]).toEqual([12, false])
    expect((await ask('lease nothing')).hits.map(({ document_id }) => document_id)).toEqual([best[1], best[2]])
    expect((await ask('many lease', 3)).hits.map(({ document_id }) => document_id)).toEqual(others.slice(-3).toReversed())
  }
})

test('a piece that very many words have is found in all of them, and in enough of them if there are more than are ranked', async () => {
  const { app, ada } = await startApp({ 'search.engine': 'postgres' })
  const engine = openPostgres(app.db)
  const ids: string[] = []
  for (let nth = 0; nth < 200; nth++)
    ids.push(
      await insertDocument(app.db, ada.id, {
        title: `number ${nth}`,
        content: nth % 5 === 0 ? 'some sublease' : `code a${nth}lease of it`,
      }),
    )
  const ground = { app } as Ground
  const piece = { field: 'content', type: 'contains', value: 'leas' } as const
  for (const size of [1000, 40, 5]) {
    await remake(ground, size)
    const ask = (maxResults: number, query: Partial<AdvancedQuery> = {}) =>
      engine.advanced({
        must: [piece],
        should: [],
        mustNot: [],
        sort: [{ field: 'score', order: 'desc' }],
        filter: noFilter,
        highlight: false,
        offset: 0,
        limit: 200,
        maxResults,
        ...query,
      })
    const found = ({ hits }: SearchAnswer) => new Set(hits.map(({ document_id }) => document_id))
    const all = await ask(1000)
    expect([all.total, all.isCapped, found(all)]).toEqual([200, false, new Set(ids)])
    const some = await ask(12)
    expect([some.total, some.isCapped, found(some).size]).toEqual([12, true, 12])
    expect([...found(some)].filter((id) => !found(all).has(id))).toEqual([])
    const none = await ask(12, { must: [{ field: 'content', type: 'match', value: 'code' }], mustNot: [piece] })
    expect(none.total).toBe(0)
    const inOrder = async (maxResults: number) =>
      (await ask(maxResults, { sort: [{ field: 'created_at', order: 'desc' }] })).hits.map(({ document_id }) => document_id)
    expect(await inOrder(12)).toEqual((await inOrder(1000)).slice(0, 12))
  }
})
