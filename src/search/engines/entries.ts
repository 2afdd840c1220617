/** Entries of a search index outside the database, and their comparison with the documents. */
import type { Db } from '../../db/pool.ts'
import { isCanonicalId } from '../../id.ts'
import type { EntryFault } from '../../ports/search-engine.ts'
import { type IndexedDocument, loadDocuments } from '../indexed-documents.ts'

/** What an index stores for a document. */
export type Entry = { readonly id: string } & Readonly<Record<string, unknown>>

/** How an engine stores entries. */
interface EntryFormat {
  /** entries of another version are not compared: a reindex replaces them */
  readonly version: number
  /** Loads the entry of a document; null if there is none. */
  readonly load: (id: string) => Promise<Entry | null>
  /** Returns the difference between an entry and the expected entry of the document; null if they are equal. */
  readonly compare: (entry: Entry, document: IndexedDocument) => Promise<Difference | null>
}

/** `left`: words and values found only in the entry; `lacks`: found only in the document. */
type Difference = Pick<EntryFault, 'left' | 'lacks'>

/** Returns the faults of entries with these ids. */
export async function entryFaults(db: Db, ids: readonly string[], { version, load, compare }: EntryFormat): Promise<EntryFault[]> {
  const stored = await db.transaction().execute((trx) => loadDocuments(trx, ids.filter(isCanonicalId)))
  const documents = new Map(stored.map((document) => [document.id, document]))
  const faults: EntryFault[] = []
  for (const id of ids) {
    const entry = await load(id)
    const document = documents.get(id)
    if (!entry !== !document) faults.push({ document_id: id, problem: entry ? 'extra' : 'missing', left: [], lacks: [] })
    if (!entry || !document || entry.version !== version) continue
    const difference = await compare(entry, document)
    if (difference) faults.push({ document_id: id, problem: 'stale', ...difference })
  }
  return faults
}

/** Returns the words of only one of two sets, sorted. */
export const differenceOf = (actual: ReadonlySet<string>, expected: ReadonlySet<string>): Difference => ({
  left: [...actual].filter((word) => !expected.has(word)).sort(),
  lacks: [...expected].filter((word) => !actual.has(word)).sort(),
})

const publicNames: Readonly<Record<string, string>> = {
  owner_id: 'owner',
  mime_type: 'type',
  label_ids: 'label',
  source_id: 'source',
  document_date: 'date',
}

/** Returns the name of a field as shown to users. */
export const publicNameOf = (field: string): string => publicNames[field] ?? field
