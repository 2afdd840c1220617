/** Writes documents into the index. */
import { setImmediate as yieldTurn } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { mapConcurrently } from '../../../../concurrency.ts'
import type { Db, Trx } from '../../../../db/pool.ts'
import { batchesOf, type IndexedDocument, loadDocuments } from '../../../indexed-documents.ts'
import { type StoredWords, storeManyCodes, storeVocabulary, Vocabulary } from '../../../vocabulary/vocabulary.ts'
import { smallints } from './binary.ts'
import { analyze, type DocumentVector, type OnWord, type SavePassage } from './document-vector.ts'
import { blockFor, indexVersion, loadSegments, lockSegments, retryAfterSwap, type Segment, segmentFor, tableOf } from './segments.ts'
import type { SortedTags } from './tags.ts'
import { blockTerm, labelTerm, mimeTypeTerm, ownerTerm, rangeTerms, sourceTerm, statusTerm } from './terms.ts'

interface Entry extends DocumentVector {
  readonly segment: Segment
  readonly document: IndexedDocument
}

interface IndexingOptions {
  /** null: the live one */
  generation?: number | null
  signal?: AbortSignal
}

/** Number of concurrent batches: one is analyzed while PostgreSQL writes the other. */
const maxConcurrent = 2

/** Writes the entries of documents into a generation. Deletes entries of documents that no longer exist. Throws the reason of `signal`. */
export async function indexDocuments(
  db: Db,
  stored: StoredWords,
  documentIds: readonly string[],
  { generation = null, signal }: IndexingOptions = {},
): Promise<void> {
  // Sorted: transactions that index the same documents wait for each other and cannot deadlock.
  const ids = [...new Set(documentIds)].sort()
  await mapConcurrently(await batchesOf(db, ids), maxConcurrent, (batch) => indexBatch(db, stored, batch, { generation, signal }), signal)
}

async function indexBatch(
  db: Db,
  stored: StoredWords,
  ids: readonly string[],
  { generation = null, signal }: IndexingOptions,
): Promise<void> {
  if (ids.length === 0) return
  const vocabulary = new Vocabulary()
  const onPassage = async () => {
    signal?.throwIfAborted()
    await storeManyCodes(db, stored, vocabulary)
  }
  await retryAfterSwap(() =>
    db.transaction().execute(async (trx) => {
      // The index can be rebuilt: a crash of the database may cost the last moment of it, never a document. The commit of the job flushes both.
      await sql`set local synchronous_commit = off`.execute(trx)
      await sql`set local work_mem = '128MB'`.execute(trx)
      await lockSegments(trx, 'share')
      const segments = await loadSegments(trx, generation)
      // One writer of a document at a time. It reads the document under the lock: the last writer has read the latest version.
      await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext(id)) from unnest(${ids}::text[]) id`.execute(trx)
      await writeEntries(trx, segments, ids, vocabulary, onPassage)
    }),
  )
  await storeVocabulary(db, stored, vocabulary)
}

/** Replaces entries. `onPassage` is called after each passage of a long text. */
async function writeEntries(
  trx: Trx,
  segments: readonly Segment[],
  ids: readonly string[],
  vocabulary: Vocabulary,
  onPassage: () => Promise<void>,
): Promise<void> {
  await deletePassages(trx, segments, ids)
  const entries: Entry[] = []
  for (const document of await loadDocuments(trx, ids)) {
    // PostgreSQL and the reader processes would wait for this process to take their answers.
    await yieldTurn()
    const segment = segmentFor(segments, document.id)
    vocabulary.addLanguage(document.language)
    let passage = 0
    const vector = await analyzeFor(
      segment,
      document,
      (word) => vocabulary.add(word),
      async ({ words, start, length }) => {
        const row = { document_id: document.id, segment: segment.number, passage: passage++, start_at: start, length }
        await trx
          .insertInto('search_passages')
          .values({ ...row, words: sql<string>`${words}::tsvector` })
          .execute()
        await onPassage()
      },
    )
    entries.push({ segment, document, ...vector })
  }
  // Locks the documents after the analysis of long texts: changes need not wait that long. A deletion waits for this lock or has happened. A move to the
  // trash does not wait: its index job comes later.
  const { rows } = await sql<{ id: string }>`
    select id from live_documents where id = any(${entries.map(({ document }) => document.id)}::uuid[]) order by id for key share`.execute(
    trx,
  )
  const existing = new Set(rows.map(({ id }) => id))
  await deletePassages(
    trx,
    segments,
    ids.filter((id) => !existing.has(id)),
  )
  for (const [segment, some] of Map.groupBy(ids, (id) => segmentFor(segments, id))) {
    await sql`delete from ${sql.table(tableOf(segment.number))} where document_id = any(${some}::uuid[])`.execute(trx)
    await insert(
      trx,
      segment,
      entries.filter((entry) => entry.segment === segment && existing.has(entry.document.id)),
    )
  }
}

/** Analyzes a document as an entry of a segment. See analyze(). */
export const analyzeFor = (segment: Segment, document: IndexedDocument, onWord: OnWord, save: SavePassage): Promise<DocumentVector> =>
  analyze(
    document,
    [
      ownerTerm(document.owner_id),
      mimeTypeTerm(document.mime_type),
      statusTerm(document.status),
      ...document.label_ids.map(labelTerm),
      ...(document.source_id === null ? [] : [sourceTerm(document.source_id)]),
      ...rangeTerms(document),
      blockTerm(blockFor(segment, document.id)),
    ],
    onWord,
    save,
  )

async function insert(trx: Trx, segment: Segment, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 0) return
  // A parameter per value: only so are they sent in binary format.
  const rows = entries.map(
    ({ document: { id, created_at, document_date, ocr_confidence, mime_type, label_ids }, words, tags, parts }) =>
      sql`(${id}::uuid, ${words}::tsvector, ${tagValues(segment, tags)}, ${parts}::smallint, ${created_at}::timestamptz, ${document_date}::date, ${ocr_confidence}::real, ${indexVersion}::smallint, ${mime_type}, ${label_ids}::uuid[])`,
  )
  const tagNames = segment.hasDeferredTags ? sql`tags, deferred_tags` : sql`tags`
  await sql`
    insert into ${sql.table(tableOf(segment.number))} (document_id, words, ${tagNames}, parts, created_at, document_date, confidence, version, mime_type, label_ids)
    values ${sql.join(rows)}`.execute(trx)
}

/** Returns the values of the columns for tags. */
const tagValues = ({ hasDeferredTags }: Segment, { immediate, deferred }: SortedTags): RawBuilder<unknown> => {
  const columns = hasDeferredTags ? [immediate, deferred] : [Int16Array.of(...immediate, ...deferred).sort()]
  return sql.join(columns.map((tags) => sql`${smallints(tags)}::smallint[]`))
}

async function deletePassages(trx: Trx, segments: readonly Segment[], ids: readonly string[]): Promise<void> {
  const numbers = segments.map(({ number }) => number)
  await sql`delete from search_passages where document_id = any(${ids}::uuid[]) and segment = any(${numbers}::integer[])`.execute(trx)
}
