/** Brings the index up to date with documents. */
import { sql } from 'kysely'
import { type Db, isForeignKeyViolation, type Trx } from '../../db/db.ts'
import { filterLexemes } from './postgres-query.ts'
import { type Passage, read } from './postgres-vector.ts'
import { remember, Vocabulary } from './postgres-words.ts'

/** Goes up when what is written per document changes, so that `search reindex --if-needed` sees old entries. */
export const indexVersion = 2

/** Documents, and bytes of text, in one transaction: small ones share its cost, and nobody waits long for a lock. */
const maxDocuments = 20
const maxBytes = 1_000_000

/** Puts these documents into the index, or takes them out where they are gone. */
export async function refresh(db: Db, documentIds: readonly string[]): Promise<void> {
  // In one order everywhere, so that two refreshes wait for each other instead of dying in a deadlock.
  const ids = [...new Set(documentIds)].sort()
  for (const batch of await batches(db, ids)) await refreshBatch(db, batch)
}

async function batches(db: Db, ids: readonly string[]): Promise<string[][]> {
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
    if (last && last.length < maxDocuments && bytes <= room) last.push(id)
    else {
      made.push([id])
      room = maxBytes
    }
    room -= bytes
  }
  return made
}

async function refreshBatch(db: Db, ids: readonly string[]): Promise<void> {
  const seen = new Vocabulary()
  try {
    await db.transaction().execute(async (trx) => {
      // The index can be made again: a crash of the database may cost the last moment of it, never a document. The job's own commit flushes both.
      await sql`set local synchronous_commit = off`.execute(trx)
      for (const id of ids) await refreshOne(trx, id, seen)
    })
  } catch (error) {
    if (!isForeignKeyViolation(error)) throw error
    // A document was deleted while it was being read; it is seen to be gone now.
    return refreshBatch(db, ids)
  }
  await remember(db, seen)
}

async function refreshOne(trx: Trx, id: string, seen: Vocabulary): Promise<void> {
  // One refresh of a document at a time, and it reads after it has waited: the last to write has seen the latest. The document itself is
  // locked by the foreign key of its entry only, at the end, so that nobody who changes it waits while a long text is read.
  await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext(${id}))`.execute(trx)
  const document = await trx
    .selectFrom('documents')
    .select(['id', 'owner_id', 'title', 'filename', 'content', 'mime_type', 'status', 'source_id', 'ocr_confidence', 'created_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (!document) {
    await trx.deleteFrom('search_entries').where('document_id', '=', id).execute()
    return
  }
  await trx.deleteFrom('search_passages').where('document_id', '=', id).execute()
  const labels = await trx
    .selectFrom('document_labels')
    .innerJoin('labels', 'labels.id', 'label_id')
    .select(['labels.id', 'labels.name'])
    .where('document_id', '=', id)
    .orderBy('labels.id')
    .execute()
  const filters = [
    filterLexemes.owner(document.owner_id),
    filterLexemes.mimeType(document.mime_type),
    filterLexemes.status(document.status),
    ...labels.map((label) => filterLexemes.label(label.id)),
    ...(document.source_id === null ? [] : [filterLexemes.source(document.source_id)]),
  ]
  const save = savePassages(trx, id)
  const { words, parts } = await read({ ...document, labels: labels.map(({ name }) => name) }, filters, (word) => seen.add(word), save)
  const entry = {
    words: sql<string>`${words}::tsvector`,
    parts,
    created_at: document.created_at,
    confidence: document.ocr_confidence,
    version: indexVersion,
  }
  await trx
    .insertInto('search_entries')
    .values({ document_id: id, ...entry })
    .onConflict((conflict) => conflict.column('document_id').doUpdateSet(entry))
    .execute()
}

function savePassages(trx: Trx, document_id: string): (passage: Passage) => Promise<void> {
  let passage = 0
  return async ({ words, start, length }) => {
    await trx
      .insertInto('search_passages')
      .values({ document_id, passage: passage++, words: sql<string>`${words}::tsvector`, start_at: start, length })
      .execute()
  }
}
