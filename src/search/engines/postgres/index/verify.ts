/** Compares the index with the documents: in numbers, and entry by entry. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../../../db/pool.ts'
import { nilId } from '../../../../id.ts'
import type { EntryFault, IndexContents, IndexStatus } from '../../../../ports/search-engine.ts'
import { type IndexedDocument, loadDocuments } from '../../../indexed-documents.ts'
import { analyze } from './document-vector.ts'
import { termsOf } from './index-documents.ts'
import { blockFor, indexVersion, isUndefinedTable, liveSegments, type Segment, segmentFor, tableOf, withSegments } from './segments.ts'
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
    // One snapshot: concurrent writes are invisible.
    db
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute((trx) => faults(trx, ids)),
})

/** Number of ids per query. */
const batchSize = 10_000
async function* ids(db: Db): AsyncGenerator<string[]> {
  try {
    for (const { number } of await liveSegments(db)) {
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

async function faults(trx: Trx, ids: readonly string[]): Promise<EntryFault[]> {
  const segments = await liveSegments(trx)
  const documents = new Map((await loadDocuments(trx, ids)).map((document) => [document.id, document]))
  const faults: EntryFault[] = []
  for (const id of ids) {
    const document = documents.get(id)
    const segment = segmentFor(segments, id)
    const { hasEntry, isOld, left, lacks } = await compare(trx, segment, id, document ? await vectorsOf(document, segment) : [])
    if (hasEntry !== (document !== undefined))
      faults.push({ document_id: id, problem: hasEntry ? 'extra' : 'missing', left: [], lacks: [] })
    else if (!isOld && left.length + lacks.length > 0)
      faults.push({ document_id: id, problem: 'stale', left: displayed(left), lacks: displayed(lacks) })
  }
  return faults
}

/** Compares the terms of an entry and its passages with the expected ones. `left`: extra terms; `lacks`: missing terms. */
async function compare(db: Db, { number }: Segment, id: string, expected: readonly Buffer[]) {
  const lexemesOf = (vector: Buffer) => sql`select unnest(tsvector_to_array(${vector}::tsvector)) as lexeme`
  const difference = (one: string, other: string) =>
    sql<string[]>`array(select lexeme from ${sql.table(one)} except select lexeme from ${sql.table(other)})`
  const { rows } = await sql<{ hasEntry: boolean; isOld: boolean; left: string[]; lacks: string[] }>`
    with entry as (select words, version from ${sql.table(tableOf(number))} where document_id = ${id}),
      actual as (
        select unnest(tsvector_to_array(words)) as lexeme from entry
        union select unnest(tsvector_to_array(words)) from search_passages where document_id = ${id} and segment = ${number}
      ),
      expected as (${sql.join([sql`select null::text as lexeme where false`, ...expected.map(lexemesOf)], sql` union all `)})
    select exists (select from entry) as "hasEntry", exists (select from entry where version <> ${indexVersion}) as "isOld",
      ${difference('actual', 'expected')} as left, ${difference('expected', 'actual')} as lacks`.execute(db)
  return rows[0]!
}

/** Returns the expected vectors of a document: of its entry and of its passages. */
async function vectorsOf(document: IndexedDocument, segment: Segment): Promise<Buffer[]> {
  const passages: Buffer[] = []
  const fields = { ...document, labels: document.label_names }
  const { words } = await analyze(
    fields,
    termsOf(document, blockFor(segment, document.id)),
    () => {},
    async ({ words }) => void passages.push(words),
  )
  return [words, ...passages]
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
