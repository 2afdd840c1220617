/** What is likely to score best, of more matches than are ranked. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import { kept } from '../../db/kept.ts'
import type { Chunk } from './postgres-chunks.ts'
import { entries, entriesIn } from './postgres-entries.ts'
import { lookUp, type Plan, type Planned, planFor } from './postgres-plan.ts'
import { and, or } from './postgres-query.ts'

/** So many are ranked then: those that are likely to be the best, and the newest. */
export const maxBest = 200
/** Looks into chunks: each takes time to plan, so that where there would be more, some are made one. */
const maxLooks = 12
/** The newest chunk that has so large a part of what a chunk has on average shows what is in the others. */
const sampled = 8

/** Some of the marks of a plan by which the best are looked for, from one on up to another: what has any of them, and none of those before. */
export interface Look {
  readonly from: number
  readonly to: number
}

/** One for each mark. */
export const eachLook = ({ hinted }: Planned): readonly Look[] => hinted.best.map((_, nth) => ({ from: nth, to: nth + 1 }))

/**
 * How to look for the best, in this order. For many chunks, one of them shows how many documents have each mark, so that only the last look may find more than are ranked.
 * null: that one has so few matches that all of them will hardly be more than `maxResults`, up to which the best need not be looked for.
 */
export async function looks(db: Db, chunks: readonly Chunk[], planned: Planned, maxResults: number): Promise<readonly Look[] | null> {
  const each = eachLook(planned)
  const all = chunks.reduce((sum, { size }) => sum + size, 0)
  const sample = chunks.find(({ size }) => size * chunks.length * sampled >= all)
  // What the best are looked for by leaves out what hints say.
  if (!sample || chunks.some(({ hasHints }) => !hasHints)) return []
  if (chunks.length * each.length <= maxLooks) return each
  // Only about: no words are read for it.
  const matches = { ...planFor(planned, sample), late: [] }
  const counts = each.map((look) => {
    const found = entries(sample, marked(look, matches))
    return sql`(select count(*)::integer from (${found} limit ${maxBest}) found)`
  })
  const share = sample.size / all
  const few = Math.ceil((maxResults * share) / 2)
  const { rows } = await sql<{ found: number[] | null }>`${kept}
    select case when (select count(*) from (${entries(sample, { ...matches, indexed: matches.about })} limit ${few}) matches) >= ${few} then array[${sql.join(counts)}] end as found`.execute(
    db,
  )
  const { found: numbers } = rows[0]!
  return numbers && looksFor(numbers, each, maxBest * share)
}

/** Those that find few together as one, and the next. */
function looksFor(numbers: readonly number[], each: readonly Look[], most: number): readonly Look[] {
  let room = most
  let few = 0
  for (const found of numbers) {
    room -= found
    if (room < 0) break
    few++
  }
  return [...(few === 0 ? [] : [{ from: 0, to: few }]), ...each.slice(few, few + 1)]
}

/** The plans for what this finds of the best. */
export function by(look: Look, { hinted, plain }: Planned): Planned {
  return { hinted: marked(look, hinted), plain: marked(look, plain) }
}

function marked({ from, to }: Look, plan: Plan): Plan {
  const { best, besides } = plan
  const query = and([...besides.match, or(best.slice(from, to)), ...(from === 0 ? [] : [`!${or(best.slice(0, from))}`])])
  return { ...plan, indexed: [lookUp(query), ...besides.others], sure: undefined }
}

/** What these find, the best first, at most so many; PostgreSQL looks for the next only while it has not enough. */
export function likely(looks: readonly Look[], chunks: readonly Chunk[], planned: Planned, limit: number): RawBuilder<unknown> | null {
  if (looks.length === 0) return null
  const each = looks.map((look) => sql`(${entriesIn(chunks, by(look, planned), limit)})`)
  return sql`select * from (${sql.join(each, sql` union all `)}) best limit ${limit}`
}
