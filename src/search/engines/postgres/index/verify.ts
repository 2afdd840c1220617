/** Compares the index with the documents: in numbers, and entry by entry. */
import { sql } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import { nilId } from '../../../../id.ts'
import type { IndexContents, IndexStatus } from '../../../../ports/search-engine.ts'
import type { IndexedDocument } from '../../../indexed-documents.ts'
import { differenceOf, type Entry, entryFaults } from '../../entries.ts'
import { analyzeFor } from './index-documents.ts'
import { indexVersion, isUndefinedTable, loadSegments, segmentFor, tableOf, withSegments } from './segments.ts'
import { longTerm, overflowTerm } from './terms.ts'

/** Counts current, outdated and extra entries, and documents without an entry, in one snapshot. */
export function status(db: Db): Promise<IndexStatus> {
  return withSegments(db, async (segments) => {
    const each = segments.map(({ number }) => sql`select document_id, version from ${sql.table(tableOf(number))}`)
    const { generation } = segments[0]!
    const { rows } = await sql<{ documents: number; outdated: number; extra: number; missing: number; made_at: Date }>`
      select count(*) filter (where entries.version = ${indexVersion}) as documents, count(*) filter (where entries.version <> ${indexVersion}) as outdated,
        count(*) - count(documents.id) as extra, (select count(*) from live_documents) - count(documents.id) as missing,
        (select max(created_at) from search_segments where generation = ${generation}) as made_at
      from (${sql.join(each, sql` union all `)}) entries left join live_documents documents on documents.id = entries.document_id`.execute(
      db,
    )
    const { made_at, ...counts } = rows[0]!
    return { index: `generation ${generation}`, ...counts, version: indexVersion, updatedAt: made_at }
  })
}

export const contents = (db: Db): IndexContents => ({
  engine: 'postgres',
  ids: () => ids(db),
  faults: (ids) =>
    entryFaults(db, ids, {
      version: indexVersion,
      load: (id) => loadEntry(db, id),
      compare: (entry, document) => compare(db, entry, document),
    }),
})

/** Number of ids per query. */
const batchSize = 10_000
async function* ids(db: Db): AsyncGenerator<string[]> {
  try {
    for (const { number } of await loadSegments(db)) {
      for (let last = nilId; ; ) {
        const { rows } = await sql<{ id: string }>`
          select document_id as id from ${sql.table(tableOf(number))} where document_id > ${last}::uuid order by document_id limit ${batchSize}`.execute(
          db,
        )
        if (rows.length === 0) break
        yield rows.map(({ id }) => id)
        last = rows.at(-1)!.id
      }
    }
  } catch (error) {
    // A rebuild has replaced the generation.
    if (!isUndefinedTable(error)) throw error
    yield* ids(db)
  }
}

/** Loads an entry with its terms and those of its passages. */
const loadEntry = (db: Db, id: string): Promise<Entry | null> =>
  withSegments(db, async (segments) => {
    const { number } = segmentFor(segments, id)
    const { rows } = await sql<Entry>`
      select document_id as id, version, array(
        select unnest(tsvector_to_array(entry.words))
        union select unnest(tsvector_to_array(words)) from search_passages where document_id = ${id} and segment = ${number}
      ) as terms from ${sql.table(tableOf(number))} entry where document_id = ${id}`.execute(db)
    return rows[0] ?? null
  })

/** Compares the terms of an entry with the expected ones. */
async function compare(db: Db, entry: Entry, document: IndexedDocument) {
  const segment = segmentFor(await loadSegments(db), document.id)
  const passages: Buffer[] = []
  const { words } = await analyzeFor(
    segment,
    document,
    () => {},
    async ({ words }) => void passages.push(words),
  )
  const vectors = [words, ...passages].map((vector) => sql`select unnest(tsvector_to_array(${vector}::tsvector))`)
  const { rows } = await sql<{ terms: string[] }>`select array(${sql.join(vectors, sql` union `)}) as terms`.execute(db)
  const { left, lacks } = differenceOf(new Set(entry.terms as string[]), new Set(rows[0]!.terms))
  return left.length + lacks.length === 0 ? null : { left: displayed(left), lacks: displayed(lacks) }
}

const filterNames = { '~o': 'owner:', '~m': 'type:', '~l': 'label:', '~s': 'status:', '~r': 'source:' } as const

/** Formats terms for readers, without duplicates. Omits terms that follow from the words. */
const displayed = (terms: readonly string[]): string[] =>
  [
    ...new Set(
      terms.flatMap((term) => {
        if (!term.startsWith('~')) return term
        if (term === longTerm || term === overflowTerm || /^~b/.test(term)) return []
        const kind = term.slice(0, 2)
        return `${Object.hasOwn(filterNames, kind) ? filterNames[kind as keyof typeof filterNames] : ''}${term.slice(2)}`
      }),
    ),
  ].sort()
