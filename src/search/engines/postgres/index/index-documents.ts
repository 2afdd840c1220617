/** Writes documents into the index. */
import { sql } from 'kysely'
import { mapConcurrently } from '../../../../concurrency.ts'
import type { Db, Trx } from '../../../../db/pool.ts'
import { batchesOf, type IndexedDocument, loadDocuments } from '../../../indexed-documents.ts'
import { type StoredWords, storeManyCodes, storeVocabulary, Vocabulary } from '../../../vocabulary/vocabulary.ts'
import { smallints } from './binary.ts'
import { analyze, type Passage } from './document-vector.ts'
import { blockFor, indexVersion, isUndefinedTable, type Segment, segmentFor, segmentsForWrite, tableOf } from './segments.ts'
import { blockTerm, labelTerm, mimeTypeTerm, ownerTerm, rangeTerms, sourceTerm, statusTerm } from './terms.ts'

interface Entry {
  readonly segment: number
  readonly document: IndexedDocument
  readonly words: Buffer
  readonly tags: Buffer
  readonly parts: number
}

/** Number of concurrent batches: one is analyzed while PostgreSQL writes the other. */
const maxConcurrent = 2

/** Writes the entries of documents into a generation (null: the live one). Deletes entries of documents that no longer exist. */
export async function indexDocuments(
  db: Db,
  stored: StoredWords,
  documentIds: readonly string[],
  generation: number | null = null,
): Promise<void> {
  // Sorted: transactions that index the same documents wait for each other and cannot deadlock.
  const ids = [...new Set(documentIds)].sort()
  await mapConcurrently(await batchesOf(db, ids), maxConcurrent, (batch) => indexBatch(db, stored, batch, generation))
}

async function indexBatch(db: Db, stored: StoredWords, ids: readonly string[], generation: number | null): Promise<void> {
  if (ids.length === 0) return
  const vocabulary = new Vocabulary()
  try {
    await db.transaction().execute(async (trx) => {
      // The index can be rebuilt: a crash of the database may cost the last moment of it, never a document. The commit of the job flushes both.
      await sql`set local synchronous_commit = off`.execute(trx)
      await sql`set local work_mem = '128MB'`.execute(trx)
      const segments = await segmentsForWrite(trx, generation)
      // One writer of a document at a time. It reads the document under the lock: the last writer has read the latest version.
      await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext(id)) from unnest(${ids}::text[]) id`.execute(trx)
      await writeEntries(trx, segments, ids, vocabulary, () => storeManyCodes(db, stored, vocabulary))
    })
  } catch (error) {
    // A rebuild has replaced the live generation meanwhile.
    if (generation !== null || !isUndefinedTable(error)) throw error
    return indexBatch(db, stored, ids, generation)
  }
  await storeVocabulary(db, stored, vocabulary)
}

/** Writes entries. `onPassage` is called after each passage of a long text. */
async function writeEntries(
  trx: Trx,
  segments: readonly Segment[],
  ids: readonly string[],
  vocabulary: Vocabulary,
  onPassage: () => Promise<void>,
): Promise<void> {
  const documents = await loadDocuments(trx, ids)
  const numbers = segments.map(({ number }) => number)
  await sql`delete from search_passages where document_id = any(${ids}::uuid[]) and segment = any(${numbers}::integer[])`.execute(trx)
  const entries: Entry[] = []
  for (const document of documents) {
    const segment = segmentFor(segments, document.id)
    vocabulary.addLanguage(document.language)
    const save = savePassages(trx, document.id, segment.number)
    const onEach = (passage: Passage) => save(passage).then(onPassage)
    const fields = { ...document, labels: document.label_names }
    const terms = termsOf(document, blockFor(segment, document.id))
    const { words, tags, parts } = await analyze(fields, terms, (word) => vocabulary.add(word), onEach)
    entries.push({ segment: segment.number, document, words, tags: smallints(tags), parts })
  }
  // Locks the documents after the analysis of long texts: changes need not wait that long. A deletion waits for this lock or has happened. A move to the
  // trash does not wait: its index job comes later.
  const { rows } = await sql<{ id: string }>`
    select id from live_documents where id = any(${documents.map(({ id }) => id)}::uuid[]) order by id for key share`.execute(trx)
  const existing = new Set(rows.map(({ id }) => id))
  await removeEntries(
    trx,
    segments,
    ids.filter((id) => !existing.has(id)),
  )
  const bySegment = Map.groupBy(
    entries.filter(({ document }) => existing.has(document.id)),
    ({ segment }) => segment,
  )
  for (const [segment, entries] of bySegment) await upsert(trx, segment, entries)
}

/** Returns the terms of a document that are not words. */
export const termsOf = (document: IndexedDocument, block: number): string[] => [
  ownerTerm(document.owner_id),
  mimeTypeTerm(document.mime_type),
  statusTerm(document.status),
  ...document.label_ids.map(labelTerm),
  ...(document.source_id === null ? [] : [sourceTerm(document.source_id)]),
  ...rangeTerms(document),
  blockTerm(block),
]

function savePassages(trx: Trx, document_id: string, segment: number): (passage: Passage) => Promise<void> {
  let passage = 0
  return async ({ words, start, length }) => {
    await trx
      .insertInto('search_passages')
      .values({ document_id, segment, passage: passage++, words: sql<string>`${words}::tsvector`, start_at: start, length })
      .execute()
  }
}

async function upsert(trx: Trx, segment: number, entries: readonly Entry[]): Promise<void> {
  // A parameter per value: only so are they sent in binary format.
  const rows = entries.map(
    ({ document: { id, created_at, document_date, ocr_confidence, mime_type, label_ids }, words, tags, parts }) =>
      sql`(${id}::uuid, ${words}::tsvector, ${tags}::smallint[], ${parts}::smallint, ${created_at}::timestamptz, ${document_date}::date, ${ocr_confidence}::real, ${indexVersion}::smallint, ${mime_type}, ${label_ids}::uuid[])`,
  )
  await sql`
    insert into ${sql.table(tableOf(segment))} (document_id, words, tags, parts, created_at, document_date, confidence, version, mime_type, label_ids)
    values ${sql.join(rows)}
    on conflict (document_id) do update set words = excluded.words, tags = excluded.tags, parts = excluded.parts, created_at = excluded.created_at,
      document_date = excluded.document_date, confidence = excluded.confidence, version = excluded.version, mime_type = excluded.mime_type, label_ids = excluded.label_ids`.execute(
    trx,
  )
}

async function removeEntries(trx: Trx, segments: readonly Segment[], ids: readonly string[]): Promise<void> {
  for (const [segment, gone] of Map.groupBy(ids, (id) => segmentFor(segments, id).number)) {
    await sql`delete from ${sql.table(tableOf(segment))} where document_id = any(${gone}::uuid[])`.execute(trx)
    await sql`delete from search_passages where document_id = any(${gone}::uuid[]) and segment = ${segment}`.execute(trx)
  }
}
