/** How the index in PostgreSQL stands to the documents: in numbers, and entry by entry. */
import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../../db/pool.ts'
import type { EntryFault, IndexContents, IndexStatus } from '../../../ports/search-engine.ts'
import { documentsOf, filtersOf, type Indexed } from './index-documents.ts'
import { type Chunk, chunkFor, chunksInForce, indexVersion, isUndefinedTable, reading, tableOf } from './segments.ts'
import { type Notes, read } from './tsvector.ts'

/** Counts entries with and without a document, and documents without an entry, all at one moment. */
export function status(db: Db): Promise<IndexStatus> {
  return reading(db, async (chunks) => {
    const each = chunks.map(({ number }) => sql`select document_id, version from ${sql.table(tableOf(number))}`)
    const { rows } = await sql<{ documents: number; outdated: number; extra: number; missing: number; made_at: Date }>`
      select count(*) filter (where entries.version = ${indexVersion}) as documents, count(*) filter (where entries.version <> ${indexVersion}) as outdated,
        count(*) - count(documents.id) as extra, (select count(*) from documents) - count(documents.id) as missing,
        (select max(created_at) from search_chunks where generation = ${chunks[0]!.generation}) as made_at
      from (${sql.join(each, sql` union all `)}) entries left join documents on documents.id = entries.document_id`.execute(db)
    const { made_at, ...counts } = rows[0]!
    return { index: `generation ${chunks[0]!.generation}`, ...counts, version: indexVersion, updatedAt: made_at }
  })
}

export const contents = (db: Db): IndexContents => ({
  engine: 'postgres',
  ids: () => ids(db),
  faults: (ids) =>
    // One moment for all of it: what is written meanwhile is not seen at all.
    db
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute((trx) => faults(trx, ids)),
})

/** Ids that are read at once. */
const batch = 10_000
const leastId = '00000000-0000-0000-0000-000000000000'

async function* ids(db: Db): AsyncGenerator<string[]> {
  try {
    for (const { number } of await chunksInForce(db)) {
      for (let last = leastId; ; ) {
        const { rows } = await sql<{ id: string }>`
          select document_id as id from ${sql.table(tableOf(number))} where document_id > ${last}::uuid order by document_id limit ${batch}`.execute(
          db,
        )
        if (rows.length === 0) break
        yield rows.map(({ id }) => id)
        last = rows.at(-1)!.id
      }
    }
  } catch (error) {
    // Another generation came into force.
    if (!isUndefinedTable(error)) throw error
    yield* ids(db)
  }
}

async function faults(trx: Trx, ids: readonly string[]): Promise<EntryFault[]> {
  const chunks = await chunksInForce(trx)
  const documents = new Map((await documentsOf(trx, ids)).map((document) => [document.id, document]))
  const found: EntryFault[] = []
  for (const id of ids) {
    const document = documents.get(id)
    const { is_there, is_old, left, lacks } = await compare(trx, chunkFor(chunks, id), id, document ? await vectors(document) : [])
    if (is_there !== (document !== undefined)) found.push({ document_id: id, problem: is_there ? 'extra' : 'missing', left: [], lacks: [] })
    else if (!is_old && left.length + lacks.length > 0)
      found.push({ document_id: id, problem: 'stale', left: shown(left), lacks: shown(lacks) })
  }
  return found
}

/** Lexemes of an entry with its passages, held against those of `wanted`, tsvectors. */
async function compare(db: Db, { number }: Chunk, id: string, wanted: readonly Buffer[]) {
  const difference = (one: string, other: string): RawBuilder<string[]> =>
    sql`array(select lexeme from ${sql.table(one)} except select lexeme from ${sql.table(other)})`
  const { rows } = await sql<{ is_there: boolean; is_old: boolean; left: string[]; lacks: string[] }>`
    with entry as (select words, version from ${sql.table(tableOf(number))} where document_id = ${id}),
      there as (
        select unnest(tsvector_to_array(words)) as lexeme from entry
        union select unnest(tsvector_to_array(words)) from search_passages where document_id = ${id} and chunk = ${number}
      ),
      wanted as (${sql.join([nothing, ...wanted.map(lexemesOf)], sql` union all `)})
    select exists (select from entry) as is_there, exists (select from entry where version <> ${indexVersion}) as is_old,
      ${difference('there', 'wanted')} as left, ${difference('wanted', 'there')} as lacks`.execute(db)
  return rows[0]!
}

const lexemesOf = (vector: Buffer) => sql`select unnest(tsvector_to_array(${vector}::tsvector)) as lexeme`
const nothing = sql`select null::text as lexeme where false`

const silent: Notes = { word() {}, newWord() {}, endField() {} }

/** What would be written for a document. */
async function vectors(document: Indexed): Promise<Buffer[]> {
  const passages: Buffer[] = []
  const { words } = await read({ ...document, labels: document.label_names }, filtersOf(document), silent, async ({ words }) => {
    passages.push(words)
  })
  return [words, ...passages]
}

const values = { '~o': 'owner:', '~m': 'type:', '~l': 'label:', '~s': 'status:', '~r': 'source:' } as const

/** Lexemes as somebody reads them, each once. */
const shown = (lexemes: readonly string[]): string[] =>
  [
    ...new Set(
      lexemes
        .filter((lexeme) => lexeme !== '~long' && lexeme !== '~many')
        .map((lexeme) => {
          if (!lexeme.startsWith('~')) return lexeme
          const mark = lexeme.slice(0, 2)
          return `${Object.hasOwn(values, mark) ? values[mark as keyof typeof values] : ''}${lexeme.slice(2)}`
        }),
    ),
  ].sort()
