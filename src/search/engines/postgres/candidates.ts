/** The entries of chunks that match: the newest first, and no more than are wanted. */
import { type RawBuilder, sql } from 'kysely'
import { lookUp, lookUpAny, type Plan, type Planned, planFor, where } from './plan.ts'
import { type Chunk, entriesOf } from './segments.ts'
import { blockHint } from './tags.ts'

export interface Scored {
  readonly document_id: string
  readonly score: number
}

/** The scores are rough. */
export interface Collected {
  readonly found: readonly Scored[]
  readonly isCapped: boolean
}

/** Blocks that are looked into at once, from the newest on: nearly always, the first hold enough of what there is too much of. */
const blocksAtOnce = [2, 3]

/** A chunk, or these blocks of it. */
interface Slice extends Chunk {
  readonly only?: readonly number[]
}

/** The chunks, the newest blocks apart; but for what takes long to look up. */
export function slices(chunks: readonly Chunk[], planned: Planned): Slice[] {
  let nth = 0
  return chunks.flatMap((chunk): Slice[] => {
    const { indexed, isLong } = planFor(planned, chunk)
    if (nth === blocksAtOnce.length || chunk.blocks.length === 0 || indexed.length === 0 || isLong) return [chunk]
    const blocks = chunk.blocks.map((_, block) => block)
    const parts: Slice[] = []
    while (blocks.length > 0 && nth < blocksAtOnce.length) parts.push({ ...chunk, only: blocks.splice(-blocksAtOnce[nth++]!) })
    if (parts.length === 1 && blocks.length === 0) return [chunk]
    return blocks.length === 0 ? parts : [...parts, { ...chunk, only: blocks }]
  })
}

/** The newest matches of some chunks, the newest first: PostgreSQL looks into the next one only while it has not enough. Of each what is needed to rank and to count it, and its rough score as `rough`. */
export function entriesIn(chunks: readonly Slice[], planned: Planned, limit: number): RawBuilder<unknown> {
  const needed = sql`document_id, words, telling, parts, chunk, mime_type, label_ids`
  const each = chunks.map((chunk) => sql`(${entries(chunk, planFor(planned, chunk), needed)} limit ${limit})`)
  return sql`select document_id, words, parts, chunk, mime_type, label_ids, ${planned.hinted.roughly} as rough from (${sql.join(each, sql` union all `)}) entry limit ${limit}`
}

/** Those of one chunk, the newest first. What the index finds is put in order only then: to find it in order, PostgreSQL would read the words of every entry. */
export function entries(chunk: Slice, plan: Plan, columns: RawBuilder<unknown> = sql`entry.*`): RawBuilder<unknown> {
  const { indexed, isLong, filters, late, doubt } = plan
  const only = chunk.only ? [sql`entry.hints && ${chunk.only.map(blockHint)}::integer[]`] : []
  const found =
    indexed.length === 0
      ? sql`select entry.* from ${entriesOf(chunk)} ${where(filters)}`
      : sql`select entry.* from (select entry.* from ${entriesOf(chunk)} ${where([...indexed, ...only, ...filters])} offset 0) entry`
  const seen =
    late.length === 0 || doubt === undefined
      ? late
      : [sql`(document_id not in (${answering(doubt, chunk)}) or ${sql.join([...late], sql` and `)})`]
  if (isLong) return sql`select ${columns} from (${inPlaces(chunk, found)}) entry ${where(seen)}`
  if (late.length === 0) return sql`select ${columns} from (${found}) entry order by document_id desc`
  return sql`select ${columns} from (${found} order by document_id desc offset 0) entry ${where(seen)} order by document_id desc`
}

/** These in their order, each read anew once it is asked for: of very many, to sort all that stands in them takes longer than to find them. */
const inPlaces = (chunk: Chunk, found: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  select entry.* from (select place from (${found}) entry order by document_id desc offset 0) placed
  cross join lateral (select entry.* from ${entriesOf(chunk)} where entry.place = placed.place offset 0) entry`

const answering = (query: string, chunk: Chunk): RawBuilder<unknown> =>
  sql`select document_id from ${entriesOf(chunk)} where ${lookUp(query)}`

/**
 * Documents of the newest blocks of a chunk, as ids, that the index alone says pass the tests of a plan; null: it says that of none.
 * The blocks are not looked up: PostgreSQL might find all their entries by that, and look for the many words in each.
 */
export function surely(chunk: Chunk, { sure }: Plan): RawBuilder<unknown> | null {
  const from = chunk.blocks.at(-blocksAtOnce[0]!) ?? chunk.blocks[0]
  if (!sure || from === undefined) return null
  return sql`
    select document_id from (select document_id, parts from ${entriesOf(chunk)} where ${lookUpAny(sure)} offset 0) entry
    where document_id >= ${from}::uuid and parts = 0`
}
