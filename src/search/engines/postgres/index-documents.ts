/** Brings the index up to date with documents. */
import { sql } from 'kysely'
import type { Db, Trx } from '../../../db/pool.ts'
import type { Token } from '../../query/tokenizer.ts'
import { blockFor, type Chunk, chunkFor, chunksToWrite, indexVersion, isUndefinedTable, tableOf } from './segments.ts'
import { Hints } from './tags.ts'
import { filterLexemes } from './tsquery.ts'
import { type Passage, read } from './tsvector.ts'
import { type Memory, remember, Vocabulary } from './vocabulary.ts'

/** Documents, and bytes of text, in one transaction: small ones share its cost, and nobody waits long for a lock. */
const maxDocuments = 100
const maxBytes = 1_000_000

/** A document as the index reads it. */
export interface Indexed {
  id: string
  owner_id: string
  title: string
  filename: string
  content: string
  mime_type: string
  status: string
  language: string
  source_id: string | null
  ocr_confidence: number | null
  created_at: Date
  label_ids: string[]
  label_names: string[]
}

interface Entry {
  readonly chunk: number
  readonly id: string
  readonly words: Buffer
  readonly telling: Buffer
  readonly order: Buffer | null
  readonly hints: Buffer
  readonly parts: number
  readonly createdAt: Date
  readonly confidence: number | null
  readonly mimeType: string
  readonly labelIds: readonly string[]
}

/** Puts these documents into the index (that of a generation, or that in force), or takes them out where they are gone. */
export async function refresh(db: Db, known: Memory, documentIds: readonly string[], generation: number | null = null): Promise<void> {
  // In one order everywhere, so that two refreshes wait for each other instead of dying in a deadlock.
  const ids = [...new Set(documentIds)].sort()
  for (const batch of await batches(db, ids)) await refreshBatch(db, known, batch, generation)
}

/** The ids, in their order, in batches of so many documents and bytes of text at most; a document with more is one alone. */
export async function batches(db: Db, ids: readonly string[], most = { documents: maxDocuments, bytes: maxBytes }): Promise<string[][]> {
  if (ids.length < 2) return [[...ids]]
  const sizes = await db
    .selectFrom('documents')
    .select(['id', sql<number>`octet_length(content)`.as('bytes')])
    .where('id', 'in', ids)
    .execute()
  const bytesOf = new Map(sizes.map(({ id, bytes }) => [id, bytes]))
  const made: string[][] = []
  let room = 0
  for (const id of ids) {
    const bytes = bytesOf.get(id) ?? 0
    const last = made.at(-1)
    if (last && last.length < most.documents && bytes <= room) last.push(id)
    else {
      made.push([id])
      room = most.bytes
    }
    room -= bytes
  }
  return made
}

async function refreshBatch(db: Db, known: Memory, ids: readonly string[], generation: number | null): Promise<void> {
  if (ids.length === 0) return
  const seen = new Vocabulary()
  try {
    await db.transaction().execute(async (trx) => {
      // The index can be made again: a crash of the database may cost the last moment of it, never a document. The job's own commit flushes both.
      await sql`set local synchronous_commit = off`.execute(trx)
      const chunks = await chunksToWrite(trx, generation)
      // One refresh of a document at a time, and it reads after it has waited: the last to write has seen the latest.
      await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext(id)) from unnest(${ids}::text[]) id`.execute(trx)
      await write(trx, chunks, ids, seen)
    })
  } catch (error) {
    // Another generation came into force while this one was written to.
    if (generation !== null || !isUndefinedTable(error)) throw error
    return refreshBatch(db, known, ids, generation)
  }
  await remember(db, known, seen)
}

async function write(trx: Trx, chunks: readonly Chunk[], ids: readonly string[], seen: Vocabulary): Promise<void> {
  const documents = await documentsOf(trx, ids)
  const numbers = chunks.map(({ number }) => number)
  await sql`delete from search_passages where document_id = any(${ids}::uuid[]) and chunk = any(${numbers}::integer[])`.execute(trx)
  const entries: Entry[] = []
  for (const document of documents) entries.push(await entryOf(trx, document, chunkFor(chunks, document.id), seen))
  // Only now are the documents locked, so that nobody who changes them waits while long texts are read; whoever deletes one waits for us, or has done it.
  const { rows } = await sql<{ id: string }>`
    select id from documents where id = any(${documents.map(({ id }) => id)}::uuid[]) order by id for key share`.execute(trx)
  const alive = new Set(rows.map(({ id }) => id))
  await remove(
    trx,
    chunks,
    ids.filter((id) => !alive.has(id)),
  )
  const byChunk = Map.groupBy(
    entries.filter(({ id }) => alive.has(id)),
    ({ chunk }) => chunk,
  )
  for (const [chunk, entries] of byChunk) await put(trx, chunk, entries)
}

/** Those that exist, in the order of ids. */
export async function documentsOf(trx: Trx, ids: readonly string[]): Promise<Indexed[]> {
  const { rows } = await sql<Indexed>`
    select id, owner_id, title, filename, content, mime_type, status, language, source_id, ocr_confidence, created_at,
      coalesce(label_ids, '{}') as label_ids, coalesce(label_names, '{}') as label_names
    from documents left join lateral (
      select array_agg(labels.id order by labels.id) as label_ids, array_agg(name order by labels.id) as label_names
      from document_labels join labels on labels.id = label_id where document_id = documents.id
    ) carried on true
    where id = any(${ids}::uuid[]) order by id`.execute(trx)
  return rows
}

/** What filters look a document up by, as words. */
export const filtersOf = (document: Indexed): string[] => [
  filterLexemes.owner(document.owner_id),
  filterLexemes.mimeType(document.mime_type),
  filterLexemes.status(document.status),
  ...document.label_ids.map(filterLexemes.label),
  ...(document.source_id === null ? [] : [filterLexemes.source(document.source_id)]),
]

async function entryOf(trx: Trx, document: Indexed, chunk: Chunk, seen: Vocabulary): Promise<Entry> {
  const { id, created_at, ocr_confidence } = document
  const hints = new Hints(created_at, ocr_confidence, blockFor(chunk, id))
  seen.speak(document.language)
  const notes = {
    word: (word: Token) => hints.follow(word),
    newWord(word: Token) {
      seen.add(word)
      hints.begin(word)
    },
    endField: () => hints.endField(),
  }
  const { number } = chunk
  const fields = { ...document, labels: document.label_names }
  const { parts, ...vectors } = await read(fields, filtersOf(document), notes, savePassages(trx, id, number))
  return {
    chunk: number,
    id,
    ...vectors,
    hints: hints.encoded(),
    parts,
    createdAt: created_at,
    confidence: ocr_confidence,
    mimeType: document.mime_type,
    labelIds: document.label_ids,
  }
}

function savePassages(trx: Trx, document_id: string, chunk: number): (passage: Passage) => Promise<void> {
  let passage = 0
  return async ({ words, start, length }) => {
    await trx
      .insertInto('search_passages')
      .values({ document_id, chunk, passage: passage++, words: sql<string>`${words}::tsvector`, start_at: start, length })
      .execute()
  }
}

/** A value each, not arrays of them: those would be text. */
async function put(trx: Trx, chunk: number, entries: readonly Entry[]): Promise<void> {
  const rows = entries.map(
    ({ id, words, telling, order, hints, parts, createdAt, confidence, mimeType, labelIds }) =>
      sql`(${id}::uuid, ${words}::tsvector, ${hints}::integer[], ${parts}::smallint, ${createdAt}::timestamptz, ${confidence}::real, ${indexVersion}::smallint, ${mimeType}, ${labelIds}::uuid[], ${telling}::tsvector, ${order}::bytea)`,
  )
  await sql`
    insert into ${sql.table(tableOf(chunk))} (document_id, words, hints, parts, created_at, confidence, version, mime_type, label_ids, telling, word_order)
    values ${sql.join(rows)}
    on conflict (document_id) do update set
      words = excluded.words, hints = excluded.hints, parts = excluded.parts,
      created_at = excluded.created_at, confidence = excluded.confidence, version = excluded.version,
      mime_type = excluded.mime_type, label_ids = excluded.label_ids, telling = excluded.telling, word_order = excluded.word_order`.execute(
    trx,
  )
}

async function remove(trx: Trx, chunks: readonly Chunk[], ids: readonly string[]): Promise<void> {
  for (const [chunk, gone] of Map.groupBy(ids, (id) => chunkFor(chunks, id).number)) {
    await sql`delete from ${sql.table(tableOf(chunk))} where document_id = any(${gone}::uuid[])`.execute(trx)
    await sql`delete from search_passages where document_id = any(${gone}::uuid[]) and chunk = ${chunk}`.execute(trx)
  }
}
