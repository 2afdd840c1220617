/** Behaviour of every search engine: users see no difference but speed and order. */
import { randomBytes, randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Db } from '../../src/db/pool.ts'
import {
  type AdvancedQuery,
  noFilter,
  type SearchAnswer,
  type SearchClause,
  type SearchEngine,
  type SearchFilter,
  type SearchQuery,
} from '../../src/ports/search-engine.ts'

/** Opens an engine on a database of its own; both are closed with the test. */
export type Prepare = () => Promise<{ db: Db; engine: SearchEngine; ownerId: string; otherOwnerId: string }>

export interface Draft {
  title?: string
  filename?: string
  content?: string
  labels?: readonly string[]
  mimeType?: string
  status?: 'pending' | 'processing' | 'completed' | 'failed'
  confidence?: number
  createdAt?: Date
  /** YYYY-MM-DD */
  date?: string
  metadata?: object
  ownerId?: string
}

/** Inserts a document into the tables, unread and not indexed. Returns its id. */
export async function insertDocument(db: Db, ownerId: string, draft: Draft = {}): Promise<string> {
  const sha256 = randomBytes(32).toString('hex')
  await db.insertInto('stored_files').values({ sha256, address: sha256, size: 1 }).execute()
  const { id } = await db
    .insertInto('documents')
    .values({
      owner_id: draft.ownerId ?? ownerId,
      title: draft.title ?? 'Untitled',
      filename: draft.filename ?? 'nameless.bin',
      content: draft.content ?? '',
      mime_type: draft.mimeType ?? 'text/plain',
      status: draft.status ?? 'completed',
      ocr_confidence: draft.confidence ?? null,
      size: 1,
      sha256,
      language: 'eng',
      metadata: JSON.stringify(draft.metadata ?? {}),
      document_date: draft.date ?? null,
      ...(draft.createdAt ? { created_at: draft.createdAt } : {}),
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  for (const name of draft.labels ?? []) await assign(db, id, await label(db, name))
  // Ids of one millisecond are in no order.
  for (const from = performance.now(); performance.now() - from < 1; ) await setImmediate()
  return id
}

/** Returns the id of the label of this name; creates it if it is missing. */
export async function label(db: Db, name: string): Promise<string> {
  const name_key = name.toLowerCase()
  const known = await db.selectFrom('labels').select('id').where('name_key', '=', name_key).executeTakeFirst()
  if (known) return known.id
  return (await db.insertInto('labels').values({ name, name_key, color: '#336699' }).returning('id').executeTakeFirstOrThrow()).id
}

export const assign = (db: Db, document_id: string, label_id: string) =>
  db.insertInto('document_labels').values({ document_id, label_id }).execute()

/** The tests of an engine. */
export function searchSuite(name: string, prepare: Prepare): void {
  async function start() {
    const { db, engine, ownerId, otherOwnerId } = await prepare()
    const ask = (text: string, options: Partial<Omit<SearchQuery, 'filter'>> & { filter?: Partial<SearchFilter> } = {}) =>
      engine.search({
        text,
        fuzzy: false,
        highlight: true,
        offset: 0,
        limit: 100,
        maxResults: 1000,
        ...options,
        filter: { ...noFilter, ...options.filter },
      })
    const find = async (query: Partial<Omit<AdvancedQuery, 'filter'>>, filter: Partial<SearchFilter> = {}) => {
      const all = { must: [], should: [], mustNot: [], sort: [{ field: 'score', order: 'desc' }] } as const
      return engine.advanced({
        ...all,
        highlight: true,
        offset: 0,
        limit: 100,
        maxResults: 1000,
        ...query,
        filter: { ...noFilter, ...filter },
      })
    }
    return {
      db,
      engine,
      ownerId,
      otherOwnerId,
      ask,
      find,
      /** Indexes drafts. Returns their ids, in order. */
      async put(...drafts: Draft[]) {
        const ids: string[] = []
        for (const draft of drafts) ids.push(await insertDocument(db, ownerId, draft))
        await engine.refresh(ids)
        return ids
      },
      /** titles of the results, sorted */
      async titles(text: string, options: Parameters<typeof ask>[1] = {}) {
        return (await ask(text, options)).hits.map(({ title }) => title).sort()
      },
      async snippets(text: string, options: Parameters<typeof ask>[1] = {}) {
        return (await ask(text, options)).hits.flatMap(({ highlights }) => highlights)
      },
    }
  }

  const its = (what: string) => `${name}: ${what}`

  test(its('finds words of title, filename, content and labels, in any case and without accents'), async () => {
    const { put, titles } = await start()
    await put(
      { title: 'Über Köln', filename: 'Ångström.PDF', content: 'Crème brûlée, ΑΘΗΝΑ, Ёлка, straße', labels: ['Façade'] },
      { title: 'Nothing' },
    )
    for (const word of ['uber', 'KÖLN', 'koln', 'angstrom', 'creme', 'BRÛLÉE', 'αθήνα', 'елка', 'STRASSE', 'facade']) {
      expect(await titles(word), word).toEqual(['Über Köln'])
    }
  })

  test(its('metadata match finds words, and any characters of scripts without spaces'), async () => {
    const { put, find } = await start()
    await put({ title: 'A', metadata: { note: '東京日本語' } }, { title: 'B', metadata: { note: ['ภาษาไทย', '日 reports'] } })
    const titles = async (value: string) =>
      (await find({ must: [{ field: 'metadata.note', type: 'match', value }] })).hits.map(({ title }) => title).sort()
    for (const [value, expected] of [
      ['日本', ['A']],
      ['東京', ['A']],
      ['語', ['A']],
      ['日', ['A', 'B']],
      ['ไทย', ['B']],
      ['reports 日', ['B']],
      ['report', []],
      ['本日', []],
    ] as const)
      expect([value, await titles(value)]).toEqual([value, expected])
  })

  test(its('finds words that begin like the last word'), async () => {
    const { put, titles } = await start()
    const long = `strand${'abcdefghij'.repeat(5)}`
    const words = ['strand', 'strandet', 'strand2024', 'strand-gut7', 'strandhaus', 'strandgut-7', long, 'Strandgüter']
    for (const [nth, word] of words.entries()) await put({ title: `T${nth}`, filename: 'f.txt', content: `amber ${word} brook` })
    await put({ title: 'In the name of the file', filename: 'strandkorb3.pdf', content: 'amber' })
    await put({ title: 'Another', filename: 'g.txt', content: 'amber 2strand astrand stran' })
    const all = [...words.keys().map((nth) => `T${nth}`), 'In the name of the file'].sort()
    expect(await titles('strand')).toEqual(all)
    expect(await titles('amber stran')).toEqual([...all, 'Another'].sort())
    expect(await titles('strand2')).toEqual(['T2'])
    expect(await titles('strandgu')).toEqual(['T3', 'T5', 'T7'])
    expect(await titles('"strand"')).toEqual(['T0', 'T3'])
    // More than anybody asks for by name.
    await put({
      title: 'Many',
      filename: 'h.txt',
      content: Array.from({ length: 300 }, (_, nth) => `strand${String.fromCharCode(97 + (nth % 26), 97 + Math.floor(nth / 26))}x`).join(
        ' ',
      ),
    })
    expect(await titles('strand')).toEqual([...all, 'Many'].sort())
  })

  test(its('asks for all words, the last one also as a prefix'), async () => {
    const { put, titles } = await start()
    await put(
      { title: 'A', content: 'yellow invoice of march' },
      { title: 'B', content: 'yellow report' },
      { title: 'C', content: 'invoice' },
    )
    expect(await titles('yellow')).toEqual(['A', 'B'])
    expect(await titles('invoice yellow')).toEqual(['A'])
    expect(await titles('yellow inv')).toEqual(['A'])
    expect(await titles('inv yellow')).toEqual([])
    for (const sign of ['&', '…', '!', '""']) expect(await titles(`yellow inv ${sign}`), sign).toEqual(['A'])
    expect(await titles('yellow absent')).toEqual([])
  })

  test(its('finds phrases only in one field and in that order'), async () => {
    const { put, titles } = await start()
    await put(
      { title: 'annual', content: 'report' },
      { title: 'B', content: 'report annual' },
      { title: 'C', content: 'The Annual\n\nReport.' },
    )
    expect(await titles('"annual report"')).toEqual(['C'])
    expect(await titles('annual report')).toEqual(['B', 'C', 'annual'])
    expect(await titles('"annual rep"')).toEqual([])
    expect(await titles('“annual report')).toEqual(['C'])
  })

  test(its('leaves out -words and -"phrases"'), async () => {
    const { put, titles } = await start()
    await put({ title: 'A', content: 'red blue' }, { title: 'B', content: 'red green' }, { title: 'C', content: 'red, not blue but green' })
    expect(await titles('red -blue')).toEqual(['B'])
    expect(await titles('red -"but green"')).toEqual(['A', 'B'])
    expect(await titles('-blue')).toEqual(['B'])
    expect(await titles('-bl red')).toEqual(['A', 'B', 'C'])
  })

  test(its('keeps stop words, and ignores punctuation'), async () => {
    const { put, titles } = await start()
    await put({ title: 'Hamlet', content: 'to be or not to be' }, { title: 'Other', content: 'that is the question' })
    expect(await titles('"to be or not to be"')).toEqual(['Hamlet'])
    expect(await titles('not to be')).toEqual(['Hamlet'])
    for (const empty of ['!!!', '-', '""', '&|!():*', "'", '\\', '-"']) expect(await titles(empty), empty).toEqual([])
    for (const odd of ["be:*'", 'be & !', '(be', 'be\\', 'be <-> or', '"be"" ""', "o'be'", '<be>']) await titles(odd)
    expect(await titles('& be | !')).toEqual(['Hamlet'])
  })

  test(its('finds numbers, dates, addresses, file names and codes as users type them'), async () => {
    const { put, titles } = await start()
    await put({
      title: 'Bill',
      filename: 'scan_2026-03-17.final.pdf',
      content:
        'Pay 1,234.56 EUR to DE89370400440532013000, ask ada.lovelace@example.org; see https://www.example.org/path/to?x=1 no. RE-2026/0815',
    })
    await put({ title: 'Other', content: '1 234 of 2026' })
    const typed = [
      '1,234.56',
      '2026-03-17',
      'scan_2026-03-17.final.pdf',
      'final.pdf',
      'ada.lovelace@example.org',
      '@example.org',
      'lovelace',
    ]
    const more = [
      'www.example.org/path',
      'RE-2026/0815',
      'DE89370400440532013000',
      '"RE-2026"',
      '1234.56',
      '2026',
      'https://www.example.org/path/to?x=1',
    ]
    for (const text of [...typed, ...more]) expect(await titles(text), text).toContain('Bill')
    expect(await titles('2026-03-18')).toEqual([])
  })

  test(its('tolerates one typo from 5 letters, two from 9, and none without fuzzy'), async () => {
    const { put, titles, snippets } = await start()
    await put({ title: 'House', content: 'house of archaeology, Straßenbahn, Ёлочка, Lloyd-George' })
    const oneOff = [
      'hose',
      'hoose',
      'huose',
      'houuse',
      'jouse',
      'houwe',
      'hous',
      'елачка',
      'archaelogy',
      'arhcaeology',
      'arxhaeoligy',
      'strassnbann',
    ]
    for (const typo of oneOff.filter((word) => word.length >= 5))
      expect(await titles(`${typo} of`, { fuzzy: true }), typo).toEqual(['House'])
    for (const typo of ['hoose', 'archaelogy']) expect(await titles(`${typo} of`), typo).toEqual([])
    for (const far of ['hxxse', 'fo', 'oof', 'archxxxlogy', '"hoose"'])
      expect(await titles(`${far} house`, { fuzzy: true }), far).toEqual([])
    expect(await titles('Loyd-Goerge of', { fuzzy: true })).toEqual(['House'])
    for (const options of [{}, { fuzzy: true }]) expect(await titles('"Loyd-Goerge"', options)).toEqual([])
    expect(await titles('Loyd-Goerge of')).toEqual([])
    expect((await snippets('lloyd-georgs', { fuzzy: true }))[0]?.snippet).toContain('<mark>Lloyd-George</mark>')
    expect(await titles('house', { fuzzy: true })).toEqual(['House'])
    expect(await titles('house -hoose', { fuzzy: true })).toEqual(['House'])
  })

  test(its('ranks title before content, and exact words before typos; every score is from 0 to 1'), async () => {
    const { put, ask } = await start()
    await put(
      { title: 'Harbour', content: 'ships' },
      { title: 'In text', content: 'harbour '.repeat(500) },
      { title: 'Typo', content: 'harbours harbour' },
      { title: 'Only typo', content: 'harbor' },
    )
    const { hits } = await ask('harbour', { fuzzy: true })
    expect(hits[0]?.title).toBe('Harbour')
    expect(hits.at(-1)?.title).toBe('Only typo')
    expect(hits).toHaveLength(4)
    for (const { score } of hits) expect(score > 0 && score <= 1).toBe(true)
    const scores = hits.map(({ score }) => score)
    expect(scores).toEqual(scores.toSorted((one, other) => other - one))
  })

  test(its('ranks adjacent words before distant ones'), async () => {
    const { put, ask } = await start()
    await put(
      { title: 'Near', content: `yellow submarine ${'and more '.repeat(20)}` },
      { title: 'Far', content: `yellow ${'and more '.repeat(20)} submarine` },
    )
    for (const text of ['yellow submarine', 'submarine yellow', 'yellow submarine -green'])
      expect(
        (await ask(text)).hits.map(({ title }) => title),
        text,
      ).toEqual(['Near', 'Far'])
  })

  test(its('marks exactly what matched, in the words of the document'), async () => {
    const { put, snippets } = await start()
    await put({
      title: 'Crème & co',
      filename: 'creme.txt',
      content: 'no <b>crème</b> here, scream not, annual report',
      labels: ['Créme!'],
    })
    expect(await snippets('creme')).toEqual([
      { field: 'title', snippet: '<mark>Crème</mark> &amp; co' },
      { field: 'content', snippet: 'no &lt;b&gt;<mark>crème</mark>&lt;/b&gt; here, scream not, annual report' },
      { field: 'filename', snippet: '<mark>creme</mark>.txt' },
      { field: 'labels', snippet: '<mark>Créme</mark>!' },
    ])
    const [phrase] = await snippets('"annual report"')
    expect(phrase?.snippet.replace(/<\/mark> <mark>/g, ' ')).toContain('<mark>annual report</mark>')
    expect((await snippets('repo'))[0]?.snippet).toContain('<mark>repo')
    expect(await snippets('anual rest', { fuzzy: true })).toEqual([])
    expect((await snippets('anual', { fuzzy: true }))[0]?.snippet).toContain('<mark>annual</mark> report')
    expect(await snippets('creme', { highlight: false })).toEqual([])
  })

  test(its('finds documents of the owner only, whatever the query'), async () => {
    const { put, ask, titles, ownerId, otherOwnerId } = await start()
    await put({ title: 'Mine', content: 'secret' }, { title: 'Theirs', content: 'secret plan', ownerId: otherOwnerId, labels: ['Hidden'] })
    expect(await titles('secret', { filter: { ownerId } })).toEqual(['Mine'])
    expect(await titles('plan', { filter: { ownerId } })).toEqual([])
    expect(await titles('-mine', { filter: { ownerId } })).toEqual([])
    expect(await titles('secert', { fuzzy: true, filter: { ownerId: otherOwnerId } })).toEqual(['Theirs'])
    expect(await titles(`~o${otherOwnerId} secret`, { filter: { ownerId } })).toEqual([])
    expect((await ask('secret', { filter: { ownerId } })).facets).toEqual({ mime_types: { 'text/plain': 1 }, labels: {}, years: {} })
    expect(await titles('secret')).toEqual(['Mine', 'Theirs'])
  })

  test(its('filters by type, labels, status, date, confidence; counts types and labels'), async () => {
    const { db, put, ask, titles } = await start()
    await put(
      {
        title: 'A',
        content: 'word',
        mimeType: 'application/pdf',
        labels: ['Red', 'Blue'],
        confidence: 0.9,
        createdAt: new Date('2026-01-01T00:00:00Z'),
      },
      { title: 'B', content: 'word', labels: ['Red'], confidence: 0.5, createdAt: new Date('2026-02-01T00:00:00Z') },
      { title: 'C', content: 'word', status: 'failed', createdAt: new Date('2026-03-01T00:00:00Z') },
    )
    const [red, blue] = [await label(db, 'Red'), await label(db, 'Blue')]
    expect((await ask('word')).facets).toEqual({
      mime_types: { 'text/plain': 2, 'application/pdf': 1 },
      labels: { Red: 2, Blue: 1 },
      years: {},
    })
    expect(await titles('word', { filter: { mimeTypes: ['application/pdf', 'image/png'] } })).toEqual(['A'])
    expect(await titles('word', { filter: { labelIds: [red] } })).toEqual(['A', 'B'])
    expect(await titles('word', { filter: { labelIds: [red, blue] } })).toEqual(['A'])
    expect(await titles('word', { filter: { status: ['failed', 'pending'] } })).toEqual(['C'])
    expect(await titles('word', { filter: { from: new Date('2026-02-01T00:00:00Z') } })).toEqual(['B', 'C'])
    expect(await titles('word', { filter: { to: new Date('2026-02-01T00:00:00Z') } })).toEqual(['A', 'B'])
    expect(await titles('word', { filter: { minConfidence: 0.6 } })).toEqual(['A'])
    expect(await titles('word', { filter: { sourceId: randomUUID() } })).toEqual([])
  })

  test(its('filters and sorts by the document date, and counts years'), async () => {
    const { db, engine, put, ask, find, titles } = await start()
    const [, , undated] = await put(
      { title: 'A', content: 'word', date: '2024-02-29' },
      { title: 'B', content: 'word', date: '2024-03-01' },
      { title: 'C', content: 'word' },
      { title: 'D', content: 'word', date: '1899-12-31' },
    )
    const between = (datedFrom: string | null, datedTo: string | null) => titles('word', { filter: { datedFrom, datedTo } })
    expect((await ask('word')).facets.years).toEqual({ 1899: 1, 2024: 2 })
    expect((await ask('word')).hits.find(({ title }) => title === 'A')?.document_date).toBe('2024-02-29')
    expect(await between('2024-02-29', '2024-02-29')).toEqual(['A'])
    expect(await between('2024-01-01', '2024-12-31')).toEqual(['A', 'B'])
    expect(await between('1800-01-01', '2024-02-29')).toEqual(['A', 'D'])
    expect(await between(null, '2024-02-28')).toEqual(['D'])
    expect(await between('2024-03-01', null)).toEqual(['B'])
    expect(await between('2024-03-02', '2024-03-01')).toEqual([])
    const byDate = async (order: 'asc' | 'desc') =>
      (await find({ sort: [{ field: 'document_date', order }] })).hits.map(({ title }) => title)
    expect(await byDate('desc')).toEqual(['B', 'A', 'D', 'C'])
    expect(await byDate('asc')).toEqual(['C', 'D', 'A', 'B'])
    await db.updateTable('documents').set({ document_date: '2020-01-01' }).where('id', '=', undated!).execute()
    await engine.refresh([undated!])
    expect(await between('2020-01-01', '2020-01-31')).toEqual(['C'])
  })

  test(its('indexes changes, new labels and deletions; repeated refreshes and unknown ids change nothing'), async () => {
    const { db, put, titles, engine } = await start()
    const [id] = (await put({ title: 'A', content: 'before' }, { title: 'B', content: 'before' })) as [string, string]
    await db.updateTable('documents').set({ content: 'after' }).where('id', '=', id).execute()
    await assign(db, id, await label(db, 'Shelf'))
    await engine.refresh([id, id, randomUUID()])
    expect(await titles('before')).toEqual(['B'])
    expect(await titles('after shelf')).toEqual(['A'])
    expect(await engine.count()).toBe(2)
    await db.deleteFrom('documents').where('id', '=', id).execute()
    await engine.refresh([id])
    await engine.refresh([id])
    expect(await titles('after')).toEqual([])
    expect(await titles('aftre', { fuzzy: true })).toEqual([])
    expect(await engine.count()).toBe(1)
  })

  test(its('the last of two concurrent refreshes has the latest state'), async () => {
    const { db, put, titles, engine } = await start()
    const [id] = (await put({ title: 'A', content: 'v0' })) as [string]
    for (let round = 1; round <= 10; round++) {
      await db
        .updateTable('documents')
        .set({ content: `v${round}` })
        .where('id', '=', id)
        .execute()
      await Promise.all([engine.refresh([id]), engine.refresh([id])])
    }
    expect(await titles('v10')).toEqual(['A'])
  })

  test(its('has pages of at most maxResults, equal scores newest first, and reports that there are more'), async () => {
    const { put, ask } = await start()
    const ids = await put(...Array.from({ length: 7 }, () => ({ content: 'same' })))
    const newestFirst = ids.toSorted().toReversed()
    const all = await ask('same', { maxResults: 7 })
    expect([all.total, all.isCapped]).toEqual([7, false])
    expect(all.hits.map(({ document_id }) => document_id)).toEqual(newestFirst)
    const capped = await ask('same', { maxResults: 5, offset: 3, limit: 2 })
    expect([capped.total, capped.isCapped, capped.facets.mime_types]).toEqual([5, true, { 'text/plain': 5 }])
    expect(capped.hits.map(({ document_id }) => document_id)).toEqual(newestFirst.slice(3, 5))
    expect((await ask('same', { offset: 50 })).hits).toEqual([])
  })

  test(its('finds words and phrases anywhere in a long document'), async () => {
    const { put, titles, snippets, ask, find } = await start()
    const middle = Array.from({ length: 40_000 }, (_, index) => `the w${index % 5000} of`).join(' ')
    await put(
      { title: 'Long', content: `first of all ${middle} hidden treasure ${middle} at the very end` },
      { title: 'Short', content: 'hidden chest' },
    )
    for (const text of [
      '"hidden treasure"',
      '"the very end"',
      'hidden end',
      '"first of all" treasure',
      '"of hidden"',
      '"w4999 of hidden treasure the w0"',
    ])
      expect(await titles(text), text).toEqual(['Long'])
    for (const text of ['"treasure hidden"', '"very the end"', '"all end"']) expect(await titles(text), text).toEqual([])
    expect(await titles('hidden -"hidden treasure"')).toEqual(['Short'])
    expect(await titles('hidden -"treasure hidden"')).toEqual(['Long', 'Short'])
    expect((await snippets('"hidden treasure"'))[0]?.snippet).toContain('<mark>hidden treasure</mark>')
    expect((await ask('treasure')).hits[0]?.highlights[0]?.snippet).toContain('hidden <mark>treasure</mark>')
    // The title is in the first passage, and is no reason to show that one.
    const inText = ({ hits }: SearchAnswer) => hits[0]?.highlights.find(({ field }) => field === 'content')?.snippet
    for (const text of ['tr', 'long treasure', 'title:long treasure', '"hidden treasure" long nameless'])
      expect(inText(await ask(text)), text).toMatch(/<mark>(hidden )?treasure<\/mark>/)
    const must = [
      { field: 'title', value: 'Long', type: 'match' },
      { field: 'content', value: 'treasure', type: 'match' },
    ] as const
    expect(inText(await find({ must }))).toContain('hidden <mark>treasure</mark>')
  })

  test(its('finds words of a document with more distinct words than its entry holds'), async () => {
    const { put, titles } = await start()
    const words = Array.from({ length: 150_000 }, (_, index) => `number${index}`).join(' ')
    await put({ title: 'Many', content: `start ${words} finish line` }, { title: 'Few', content: 'number7 number99999 start' })
    expect(await titles('number7 start ')).toEqual(['Few', 'Many'])
    expect(await titles('number149999 "finish line" start')).toEqual(['Many'])
    expect(await titles('number150001')).toEqual([])
    expect(await titles('start -number149999')).toEqual(['Few'])
    expect(await titles('number99999')).toEqual(['Few', 'Many'])
  })

  test(its('evaluates conditions on fields: words, parts of words and of text, whole fields'), async () => {
    const { put, find } = await start()
    await put(
      { title: 'Annual Report', filename: 'a-2026.pdf', content: 'Café, bill no. 4711-0815', labels: ['Tax 2026'] },
      { title: 'Report', filename: 'b.txt', content: 'annual bills', labels: ['Taxi'], mimeType: 'text/html', status: 'failed' },
    )
    const both = ['Annual Report', 'Report']
    const cases: [SearchClause, string[]][] = [
      [{ field: 'title', type: 'match', value: 'report' }, both],
      [{ field: 'title', type: 'exact', value: 'REPORT' }, ['Report']],
      [{ field: 'content', type: 'match', value: 'annual' }, ['Report']],
      [{ field: 'content', type: 'contains', value: 'ILL' }, both],
      [{ field: 'content', type: 'contains', value: '711-08' }, ['Annual Report']],
      [{ field: 'content', type: 'contains', value: 'cafe, b' }, ['Annual Report']],
      [{ field: 'content', type: 'exact', value: 'annual bills' }, ['Report']],
      [{ field: 'filename', type: 'contains', value: '-20' }, ['Annual Report']],
      [{ field: 'labels', type: 'contains', value: 'tax' }, both],
      [{ field: 'labels', type: 'exact', value: 'taxi' }, ['Report']],
      [{ field: 'mime_type', type: 'exact', value: 'text/html' }, ['Report']],
      [{ field: 'status', type: 'match', value: 'failed' }, ['Report']],
      [{ field: 'any', type: 'match', value: 'tax annual' }, ['Annual Report']],
    ]
    const titles = async (query: Parameters<typeof find>[0]) => (await find(query)).hits.map(({ title }) => title).sort()
    for (const [clause, expected] of cases) {
      expect(await titles({ must: [clause] }), JSON.stringify(clause)).toEqual(expected)
      expect(await titles({ should: [clause] }), JSON.stringify(clause)).toEqual(expected)
      expect(await titles({ mustNot: [clause] }), JSON.stringify(clause)).toEqual(both.filter((title) => !expected.includes(title)))
    }
  })

  test(its('contains finds no joined form of words in a title or filename'), async () => {
    const { put, find } = await start()
    await put({ title: 'E-Mail of 12.34', filename: 'e-mail.12-34.pdf' }, { title: 'Email 1234', filename: 'email1234.pdf' })
    const titles = async (query: Parameters<typeof find>[0]) => (await find(query)).hits.map(({ title }) => title).sort()
    for (const field of ['title', 'filename'] as const) {
      for (const value of ['email', '123', 'mai']) {
        const clause: SearchClause = { field, type: 'contains', value }
        const expected = value === 'mai' ? ['E-Mail of 12.34', 'Email 1234'] : ['Email 1234']
        expect([field, value, await titles({ must: [clause] })]).toEqual([field, value, expected])
        expect(await titles({ should: [clause] })).toEqual(expected)
        expect(await titles({ mustNot: [clause] })).toEqual(value === 'mai' ? [] : ['E-Mail of 12.34'])
      }
    }
  })

  test(its('applies owner and filter with any conditions, and without any'), async () => {
    const { put, find, ownerId, otherOwnerId } = await start()
    await put({ title: 'Mine', content: 'secret' }, { title: 'Theirs', content: 'secret plan', ownerId: otherOwnerId, labels: ['Hidden'] })
    const plan: SearchClause = { field: 'content', type: 'contains', value: 'pla' }
    const hidden: SearchClause = { field: 'labels', type: 'exact', value: 'hidden' }
    const queries = [{ must: [plan] }, { should: [plan, hidden] }, { must: [hidden] }, { must: [{ ...plan, value: 't pl' }] }]
    for (const query of queries) {
      expect((await find(query, { ownerId })).total).toBe(0)
      expect((await find(query)).hits.map(({ title }) => title)).toEqual(['Theirs'])
    }
    for (const query of [{}, { mustNot: [plan] }, { mustNot: [hidden] }])
      expect((await find(query, { ownerId })).hits.map(({ title }) => title)).toEqual(['Mine'])
    expect((await find({}, { mimeTypes: ['image/png'] })).total).toBe(0)
  })

  test(its('sorts all matches by fields, not only the newest'), async () => {
    const { put, find } = await start()
    await put({ title: 'a', content: 'x', confidence: 0.1 }, { title: 'c', content: 'x', confidence: 0.5 }, { title: 'b', content: 'x' })
    const sorted = async (...sort: AdvancedQuery['sort']) => {
      const { hits, total, isCapped } = await find({ sort, maxResults: 2, must: [{ field: 'content', type: 'match', value: 'x' }] })
      expect([total, isCapped]).toEqual([2, true])
      return hits.map(({ title }) => title).join('')
    }
    expect(await sorted({ field: 'title', order: 'asc' })).toBe('ab')
    expect(await sorted({ field: 'title', order: 'desc' })).toBe('cb')
    expect(await sorted({ field: 'ocr_confidence', order: 'desc' })).toBe('ca')
    expect(await sorted({ field: 'size', order: 'asc' }, { field: 'title', order: 'desc' })).toBe('cb')
    expect(await sorted({ field: 'score', order: 'desc' })).toBe('bc')
  })

  test(its('evaluates OR, and words and phrases in one field'), async () => {
    const { put, titles } = await start()
    await put(
      { title: 'Annual report', filename: 'a-red.txt', content: 'green' },
      { title: 'Annual plan', filename: 'b.txt', content: 'red report' },
      { title: 'Blue', filename: 'c.txt', content: 'annual' },
    )
    expect(await titles('green OR red')).toEqual(['Annual plan', 'Annual report'])
    expect(await titles('annual green OR "red report"')).toEqual(['Annual plan', 'Annual report'])
    expect(await titles('blue OR green annual')).toEqual(['Annual report', 'Blue'])
    expect(await titles('title:annual')).toEqual(['Annual plan', 'Annual report'])
    expect(await titles('title:report')).toEqual(['Annual report'])
    expect(await titles('content:report')).toEqual(['Annual plan'])
    expect(await titles('filename:red')).toEqual(['Annual report'])
    expect(await titles('title:"annual plan" red')).toEqual(['Annual plan'])
    expect(await titles('annual -title:annual')).toEqual(['Blue'])
    expect(await titles('annual -content:"red report"')).toEqual(['Annual report', 'Blue'])
    expect(await titles('title:bl')).toEqual(['Blue'])
  })

  test(its('excludes types and labels, and accepts families of types'), async () => {
    const { db, put, titles } = await start()
    await put(
      { title: 'A', content: 'word', mimeType: 'image/png', labels: ['Red'] },
      { title: 'B', content: 'word', mimeType: 'image/jpeg' },
      { title: 'C', content: 'word', mimeType: 'text/plain', labels: ['Red', 'Blue'] },
    )
    const [red, blue] = [await label(db, 'Red'), await label(db, 'Blue')]
    expect(await titles('word', { filter: { mimeTypes: ['image/*'] } })).toEqual(['A', 'B'])
    expect(await titles('word', { filter: { mimeTypes: ['image/*', 'text/plain'] } })).toEqual(['A', 'B', 'C'])
    expect(await titles('word', { filter: { notMimeTypes: ['image/png'] } })).toEqual(['B', 'C'])
    expect(await titles('word', { filter: { notMimeTypes: ['image/*'] } })).toEqual(['C'])
    expect(await titles('word', { filter: { notLabelIds: [red] } })).toEqual(['B'])
    expect(await titles('word', { filter: { labelIds: [red], notLabelIds: [blue] } })).toEqual(['A'])
  })

  test(its('finds the most similar documents, without itself and without those of others'), async () => {
    const { put, engine, ownerId, otherOwnerId } = await start()
    const lease = 'tenancy of the flat with deposit, landlord and tenant'
    const [id] = (await put(
      { title: 'Lease', content: lease },
      { title: 'Lease of a garage', content: `${lease}, garage` },
      { title: 'Theirs', content: lease, ownerId: otherOwnerId },
      { title: 'Recipe', content: 'flour, butter and sugar' },
    )) as [string]
    const like = async (filter: Partial<SearchFilter>, limit = 10) =>
      (await engine.similar({ documentId: id, filter: { ...noFilter, ...filter }, limit })).map(({ title }) => title)
    expect((await like({ ownerId }))[0]).toBe('Lease of a garage')
    expect(await like({ ownerId })).not.toContain('Theirs')
    expect(await like({ ownerId })).not.toContain('Lease')
    expect(await like({})).toContain('Theirs')
    expect(await like({}, 1)).toHaveLength(1)
    expect(await engine.similar({ documentId: randomUUID(), filter: noFilter, limit: 5 })).toEqual([])
  })

  test(
    its('by likeness finds texts in scripts without spaces, and nothing that has but the ending of its filename in common'),
    async () => {
      const { put, engine } = await start()
      const [contract, blank] = (await put(
        { title: '契約', content: '賃貸借契約書。東京都の部屋を借りる。', filename: 'a.txt' },
        { title: '', content: '', filename: 'b.txt' },
        { title: '別の契約', content: '賃貸借契約。大阪の部屋を借りる。', filename: 'c.pdf' },
        { title: '料理', content: '小麦粉とバターと砂糖', filename: 'd.txt' },
      )) as [string, string]
      const like = async (documentId: string) =>
        (await engine.similar({ documentId, filter: noFilter, limit: 10 })).map(({ title }) => title)
      expect(await like(contract)).toEqual(['別の契約'])
      expect(await like(blank)).toEqual([])
    },
  )

  test(its('builds a new index beside the current one, which answers until the swap; later changes are written to both'), async () => {
    const { db, engine, put, titles } = await start()
    const ids = (
      await put({ title: 'A', content: 'before' }, { title: 'B', content: 'before' }, { title: 'Gone', content: 'before' })
    ).sort()
    const made = await engine.rebuild()
    await made.put(ids)
    expect(await titles('before')).toEqual(['A', 'B', 'Gone'])
    expect(await made.complete()).toBe(3)
    const { id } = await db.selectFrom('documents').select('id').where('title', '=', 'A').executeTakeFirstOrThrow()
    const gone = await db.selectFrom('documents').select('id').where('title', '=', 'Gone').executeTakeFirstOrThrow()
    await db.updateTable('documents').set({ content: 'after' }).where('id', '=', id).execute()
    await db.deleteFrom('documents').where('id', '=', gone.id).execute()
    await engine.refresh([id, gone.id])
    expect(await titles('after')).toEqual(['A'])
    await made.put([id, gone.id])
    expect(await made.complete()).toBe(2)
    await made.swap()
    await made.discard()
    expect(await titles('before')).toEqual(['B'])
    expect(await titles('after')).toEqual(['A'])
    expect(await engine.status()).toMatchObject({ documents: 2, outdated: 0 })
    await put({ title: 'New', content: 'after' })
    expect(await titles('after')).toEqual(['A', 'New'])
    expect(await engine.count()).toBe(3)
  })

  test(its('discards a rebuild completely, also an abandoned one'), async () => {
    const { engine, put, titles } = await start()
    const ids = await put({ title: 'A', content: 'word' })
    await (await engine.rebuild()).put(ids)
    const second = await engine.rebuild()
    await second.put(ids)
    await second.discard()
    expect(await titles('word')).toEqual(['A'])
    expect(await engine.count()).toBe(1)
  })
}
