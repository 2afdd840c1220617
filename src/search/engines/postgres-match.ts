/** Runs a search that is put together: which documents, in which order, how many of which type and label. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import { kept } from '../../db/kept.ts'
import type { SearchAnswer, SearchSort } from '../../ports/search.ts'
import { type Chunk, entriesOf, reading } from './postgres-chunks.ts'
import { blockHint } from './postgres-hints.ts'
import { lookUp, type Plan, type Planned, where } from './postgres-plan.ts'
import { and, or } from './postgres-query.ts'

export interface Window {
  readonly offset: number
  readonly limit: number
  readonly maxResults: number
}

export interface Scored {
  readonly document_id: string
  readonly score: number
}

export interface Matches extends Omit<SearchAnswer, 'hits'> {
  readonly page: readonly Scored[]
}

interface Collected {
  readonly found: readonly Scored[]
  readonly isCapped: boolean
}

/** Matches that are all ranked. */
const maxRanked = 300
/** Of more: so many, those that are likely to be the best, and the newest. */
const maxBest = 200
/** Chunks in one statement: each takes time to plan, whether or not it is looked into. */
const maxTogether = 60
/** Looks into chunks for the best, likewise: where there would be more, some are made one. */
const maxLooks = 60
/** Blocks that are looked into at once, from the newest on: nearly always, the first hold enough of what there is too much of. */
const blocksAtOnce = [2, 3]

/** A chunk, or these blocks of it. */
interface Slice extends Chunk {
  readonly only: readonly number[] | null
}

/** One page of the matches, with totals over at most `maxResults` of them: the first in the order asked for; where that is by score, the newest. */
export function match(db: Db, planned: Planned, sort: readonly SearchSort[], window: Window): Promise<Matches> {
  const isByScore = sort.every(({ field }) => field === 'score')
  return reading(db, (chunks) =>
    isByScore && planned(true).tests.length === 0 && chunks.length <= maxTogether
      ? atOnce(db, chunks, planned, sort[0]!.order, window)
      : stepByStep(db, chunks, planned, sort, window),
  )
}

async function stepByStep(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  sort: readonly SearchSort[],
  { offset, limit, maxResults }: Window,
): Promise<Matches> {
  const isByScore = sort[0]!.field === 'score'
  const { found, isCapped } = isByScore
    ? await newest(db, chunks, planned, maxResults)
    : await firstOfAll(db, chunks, planned, sort, maxResults)
  const ordered = isByScore ? await inOrderOfScore(db, found, sort) : found
  const page = ordered.slice(offset, offset + limit)
  return { page, total: found.length, isCapped, facets: await facets(db, found) }
}

/**
 * The newest matches as below, counted and cut into pages by PostgreSQL itself: sending it a thousand ids back took longer than finding them.
 * Of many, where some are likely to be the best, only those are ranked; after them come the newest, because reading the words of a thousand takes longer than all the rest.
 */
async function atOnce(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  order: SearchSort['order'],
  { offset, limit, maxResults }: Window,
): Promise<Matches> {
  const { score } = planned(true)
  const isAscending = order === 'asc'
  const best = likely(await looks(db, chunks, planned), chunks, planned, Math.min(maxBest, maxResults))
  const isMoreThan = (count: number) => sql<boolean>`((select count(*) from newest) > ${count})`
  const isCapped = isMoreThan(maxResults)
  const isMany = isAscending ? isCapped : isMoreThan(Math.min(maxRanked, maxResults))
  const inOrder = isAscending ? sql`order by score asc nulls first, document_id asc` : sql`order by score desc nulls last, document_id desc`
  const { rows } = await sql<SearchAnswer['facets'] & { total: number; is_capped: boolean; page: Scored[] }>`${kept}
    with newest as materialized (${entriesIn(slices(chunks, planned), planned, maxResults + 1)}),
      best as materialized (${best ? sql`select entry.*, ${score} as score from (${best}) entry where ${isMany}` : sql`select entry.*, 0::real as score from newest entry limit 0`}),
      found as materialized (
        select * from best
        union all (
          select entry.*, case when ${isMany} and row_number() over (order by document_id desc) > ${maxBest} - (select count(*) from best) then null else ${score} end as score
          from newest entry where document_id not in (select document_id from best)
          order by document_id desc limit ${maxResults} - (select count(*) from best)
        )
      )
    select (select count(*)::integer from found) as total, ${isCapped} as is_capped,
      (select coalesce(json_agg(json_build_object('document_id', document_id, 'score', coalesce(score, ${score}))), '[]') from (
        select * from found ${inOrder} limit ${limit} offset ${offset}
      ) entry) as page, ${facetsOf(sql`found`)}`.execute(db)
  const { page, total, is_capped, ...facets } = rows[0]!
  return { page, total, isCapped: is_capped, facets }
}

/** The chunks, the newest blocks apart. */
function slices(chunks: readonly Chunk[], planned: Planned): Slice[] {
  let nth = 0
  return chunks.flatMap((chunk): Slice[] => {
    const whole = { ...chunk, only: null }
    if (nth === blocksAtOnce.length || chunk.blocks.length === 0 || planned(chunk.hasHints).indexed.length === 0) return [whole]
    const blocks = chunk.blocks.map((_, block) => block)
    const parts: Slice[] = []
    while (blocks.length > 0 && nth < blocksAtOnce.length) parts.push({ ...chunk, only: blocks.splice(-blocksAtOnce[nth++]!) })
    if (parts.length === 1 && blocks.length === 0) return [whole]
    return blocks.length === 0 ? parts : [...parts, { ...chunk, only: blocks }]
  })
}

/** Some of the marks of a plan by which the best are looked for, from one on up to another: what has any of them, and none of those before. */
interface Look {
  readonly from: number
  readonly to: number
}

/** How to look for the best, in this order. For many chunks, the newest shows how many documents have each mark, so that only the last look may find more than are ranked. */
async function looks(db: Db, chunks: readonly Chunk[], planned: Planned): Promise<readonly Look[]> {
  const each = planned(true).best.map((_, nth): Look => ({ from: nth, to: nth + 1 }))
  const [newest] = chunks
  // What the best are looked for by leaves out what hints say.
  if (!newest || chunks.some(({ hasHints }) => !hasHints)) return []
  if (chunks.length * each.length <= maxLooks) return each
  const counts = each.map((look) => {
    const found = entries(newest, by(look)(planned)(newest.hasHints))
    return sql`(select count(*)::integer from (${found} limit ${maxBest}) found)`
  })
  const { rows } = await sql<{ found: number[] }>`select array[${sql.join(counts)}] as found`.execute(db)
  let room = maxBest / chunks.length
  let few = 0
  for (const found of rows[0]!.found) {
    room -= found
    if (room < 0) break
    few++
  }
  return [...(few === 0 ? [] : [{ from: 0, to: few }]), ...each.slice(few, few + 1)]
}

/** The plan for what this finds of the best. */
const by =
  ({ from, to }: Look) =>
  (planned: Planned): Planned =>
  (hasHints) => {
    const plan = planned(hasHints)
    const { best, besides } = plan
    const query = and([...besides.match, or(best.slice(from, to)), ...(from === 0 ? [] : [`!${or(best.slice(0, from))}`])])
    return { ...plan, indexed: [lookUp(query), ...besides.others] }
  }

/** What these find, the best first, at most so many; PostgreSQL looks for the next only while it has not enough. */
function likely(looks: readonly Look[], chunks: readonly Chunk[], planned: Planned, limit: number): RawBuilder<unknown> | null {
  if (looks.length === 0) return null
  const each = looks.map((look) => sql`(${entriesIn(chunks, by(look)(planned), limit)})`)
  return sql`select * from (${sql.join(each, sql` union all `)}) best limit ${limit}`
}

/** The newest matches, from the newest chunk to the oldest, until there are enough; where there are too many, some of the best besides. */
async function newest(db: Db, chunks: readonly Chunk[], planned: Planned, maxResults: number): Promise<Collected> {
  const { found, isCut } = await collect(db, chunks, planned, maxResults + 1)
  if (found.length <= maxResults) return { found, isCapped: isCut }
  const best: Scored[] = []
  const most = Math.min(maxBest, maxResults)
  for (const look of await looks(db, chunks, planned)) {
    if (best.length >= most) break
    best.push(...(await collect(db, chunks, by(look)(planned), most - best.length)).found)
  }
  const all = new Map([...best, ...found].map((scored) => [scored.document_id, scored]))
  return { found: [...all.values()].slice(0, maxResults), isCapped: true }
}

async function collect(db: Db, chunks: readonly Chunk[], planned: Planned, limit: number): Promise<{ found: Scored[]; isCut: boolean }> {
  const { tests, maxTested } = planned(true)
  if (tests.length > 0) return collectTested(db, chunks, planned, limit, maxTested)
  const found: Scored[] = []
  let together = 1
  for (let start = 0; start < chunks.length && found.length < limit; ) {
    const { rows } = await sql<Scored>`
      select document_id, ${planned(true).score} as score from (${entriesIn(chunks.slice(start, start + together), planned, limit - found.length)}) entry`.execute(
      db,
    )
    found.push(...rows)
    start += together
    together = Math.min(maxTogether, together * 3)
  }
  return { found, isCut: false }
}

/** The newest matches of some chunks, the newest first: PostgreSQL looks into the next one only while it has not enough. */
function entriesIn(chunks: readonly (Chunk | Slice)[], planned: Planned, limit: number): RawBuilder<unknown> {
  const each = chunks.map((chunk) => sql`(${entries(chunk, planned(chunk.hasHints))} order by document_id desc limit ${limit})`)
  return sql`select * from (${sql.join(each, sql` union all `)}) entry limit ${limit}`
}

/** What the index finds is put in order only then: to find it in order, PostgreSQL would read the words of every entry. */
function entries(chunk: Chunk | Slice, { indexed, filters, late }: Plan): RawBuilder<unknown> {
  const only = 'only' in chunk && chunk.only !== null ? [sql`entry.hints && ${chunk.only.map(blockHint)}::integer[]`] : []
  const found =
    indexed.length === 0
      ? sql`select entry.* from ${entriesOf(chunk)} ${where(filters)}`
      : sql`select entry.* from (select entry.* from ${entriesOf(chunk)} ${where([...indexed, ...only, ...filters])} offset 0) entry`
  return late.length === 0 ? found : sql`select entry.* from (${found} order by document_id desc offset 0) entry ${where(late)}`
}

async function collectTested(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  limit: number,
  maxTested: number | null,
): Promise<{ found: Scored[]; isCut: boolean }> {
  const found: Scored[] = []
  let tested = 0
  for (const chunk of chunks) {
    const mayTest = maxTested === null ? null : maxTested - tested
    if (found.length >= limit || mayTest === 0) break
    const { rows } = await sql<
      Scored & { seen: number }
    >`${testedIn(chunk, planned(chunk.hasHints), limit - found.length, mayTest)}`.execute(db)
    found.push(...rows.flatMap(({ document_id, score }) => (document_id === null ? [] : [{ document_id, score }])))
    tested += rows[0]?.seen ?? 0
  }
  return { found, isCut: maxTested !== null && tested >= maxTested }
}

/** The newest of one chunk that pass the tests, or one row of nothing; with each row how many were looked at. */
function testedIn(chunk: Chunk, plan: Plan, limit: number, mayTest: number | null): RawBuilder<unknown> {
  return sql`
    with candidates as materialized (
      ${entries(chunk, plan)} order by document_id desc ${mayTest === null ? sql`` : sql`limit ${mayTest}`}
    ), tested as materialized (
      -- As they come, and only until there are enough.
      select * from candidates entry ${where(plan.tests)} limit ${limit}
    )
    select document_id, ${plan.score} as score, seen
    from (select count(*)::integer as seen from candidates) looked left join tested entry on true`
}

/** What documents are sorted by that their entries have too. */
const entryColumns: ReadonlyMap<SearchSort['field'], RawBuilder<unknown>> = new Map([
  ['created_at', sql`entry.created_at`],
  ['ocr_confidence', sql`entry.confidence`],
])

/** Those that come first in the order asked for, over all chunks. */
async function firstOfAll(
  db: Db,
  chunks: readonly Chunk[],
  planned: Planned,
  sort: readonly SearchSort[],
  maxResults: number,
): Promise<Collected> {
  const { score, maxTested } = planned(true)
  const each = chunks.map((chunk) => {
    const { indexed, filters, late, tests } = planned(chunk.hasHints)
    const conditions = [...indexed, ...filters, ...late, ...(maxTested === null ? tests : [])]
    return sql`select entry.* from ${entriesOf(chunk)} ${where(conditions)}`
  })
  const matching = sql`(${sql.join(each, sql` union all `)}) entry`
  const source =
    maxTested === null
      ? matching
      : sql`(select entry.* from (select * from ${matching} order by document_id desc limit ${maxTested}) entry ${where(planned(true).tests)}) entry`
  const ofEntry = (field: SearchSort['field']) => (field === 'score' ? score : entryColumns.get(field))
  const isInEntries = sort.every(({ field }) => ofEntry(field) !== undefined)
  const key = (field: SearchSort['field']) => ofEntry(field) ?? sql.ref(`documents.${field}`)
  // Only of the first the words are read, unless the score is part of the order.
  const { rows } = await sql<Scored>`
    select document_id, ${score} as score from (
      select entry.* from ${source} ${isInEntries ? sql`` : sql`join documents on documents.id = entry.document_id`}
      order by ${inOrder(sort, key)} limit ${maxResults + 1}
    ) entry`.execute(db)
  const isCut = maxTested !== null && (await isMoreThan(db, matching, maxTested))
  return { found: rows.slice(0, maxResults), isCapped: rows.length > maxResults || isCut }
}

async function isMoreThan(db: Db, matching: RawBuilder<unknown>, count: number): Promise<boolean> {
  const { rows } = await sql`select from ${matching} limit ${count}`.execute(db)
  return rows.length >= count
}

async function inOrderOfScore(db: Db, found: readonly Scored[], sort: readonly SearchSort[]): Promise<readonly Scored[]> {
  const [first, ...others] = sort
  const sign = first?.order === 'asc' ? 1 : -1
  if (others.every(({ field }) => field === 'score')) {
    return found.toSorted((one, other) => sign * (one.score - other.score || (one.document_id < other.document_id ? -1 : 1)))
  }
  const key = (field: SearchSort['field']) => (field === 'score' ? sql`entry.score` : sql.ref(`documents.${field}`))
  const { rows } = await sql<Scored>`
    select entry.document_id, entry.score
    from unnest(${found.map(({ document_id }) => document_id)}::uuid[], ${found.map(({ score }) => score)}::real[]) as entry (document_id, score)
    join documents on documents.id = entry.document_id order by ${inOrder(sort, key)}`.execute(db)
  return rows
}

async function facets(db: Db, found: readonly Scored[]): Promise<SearchAnswer['facets']> {
  if (found.length === 0) return { mime_types: {}, labels: {} }
  const { rows } = await sql<SearchAnswer['facets']>`
    with found as materialized (
      select document_id, null::text as mime_type, null::uuid[] as label_ids from unnest(${found.map(({ document_id }) => document_id)}::uuid[]) document_id
    ) select ${facetsOf(sql`found`)}`.execute(db)
  return rows[0]!
}

/** Two columns: how many of these entries are of which type, and have which label. What an entry does not say of itself is seen in its document. */
const facetsOf = (entries: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (select coalesce(json_object_agg(mime_type, count), '{}') from (
    select coalesce(entry.mime_type, (select documents.mime_type from documents where id = document_id)) as mime_type, count(*)
    from ${entries} entry group by 1 order by count(*) desc, 1
  ) types where mime_type is not null) as mime_types,
  (select coalesce(json_object_agg(name, count), '{}') from (
    select labels.name, count from (
      select label_id, count(*) from ${entries} entry,
        unnest(coalesce(entry.label_ids, array(select label_id from document_labels where document_labels.document_id = entry.document_id))) label_id
      group by label_id
    ) carried join labels on labels.id = label_id order by count desc, labels.name
  ) names) as labels`

/** As in the list of documents: nothing counts as less than anything. */
function inOrder(sort: readonly SearchSort[], key: (field: SearchSort['field']) => RawBuilder<unknown>): RawBuilder<unknown> {
  const direction = (order: SearchSort['order']) => (order === 'asc' ? sql`asc nulls first` : sql`desc nulls last`)
  const keys = sort.map(({ field, order }) => sql`${key(field)} ${direction(order)}`)
  return sql.join([...keys, sql`entry.document_id ${direction(sort[0]!.order)}`])
}
