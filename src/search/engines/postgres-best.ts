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
  const plan = planFor(planned, sample)
  const { about } = plan
  if (chunks.length * each.length <= maxLooks || about === null) return each
  // Only about: no words are read for it.
  const matches = { ...plan, late: [] }
  const share = sample.size / all
  const few = Math.ceil((maxResults * share) / 2)
  const room = Math.floor(maxBest * share)
  const count = (nth: number) => sql`(select found from ${sql.id(`look_${nth}`)})`
  const counts = each.map(
    (look, nth) =>
      sql`${sql.id(`look_${nth}`)} as materialized (select count(*)::integer as found from (${entries(sample, marked(look, matches))} limit ${maxBest}) found)`,
  )
  // One after the other, until there are enough.
  const needed = each.map((_, nth) =>
    nth === 0
      ? count(0)
      : sql`case when ${sql.join(
          each.slice(0, nth).map((_, before) => count(before)),
          sql` + `,
        )} <= ${room} then ${count(nth)} end`,
  )
  const { rows } = await sql<{ found: (number | null)[] | null }>`${kept}
    with ${sql.join(counts)}
    select case when (select count(*) from (${entries(sample, { ...matches, indexed: about })} limit ${few}) matches) >= ${few} then array[${sql.join(needed)}] end as found`.execute(
    db,
  )
  const { found } = rows[0]!
  return found && looksFor(found, each, room)
}

/** Those that find few together as one, and the next. null: so many were not needed. */
function looksFor(found: readonly (number | null)[], each: readonly Look[], most: number): readonly Look[] {
  let room = most
  const enough = found.findIndex((count) => {
    room -= count ?? Number.POSITIVE_INFINITY
    return room < 0
  })
  const few = enough === -1 ? each.length : enough
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
