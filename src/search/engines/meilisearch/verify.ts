/** How an index of Meilisearch stands to the documents, entry by entry. */
import { type Index, MeilisearchApiError } from 'meilisearch'
import type { Db } from '../../../db/pool.ts'
import type { EntryFault, IndexContents } from '../../../ports/search-engine.ts'
import { documentsOf } from '../postgres/index-documents.ts'
import { type Entry, entryOf, indexVersion } from './document.ts'
import type { Server } from './server.ts'
import { read } from './word-encoding.ts'

export const contents = (db: Db, server: Server, index: string): IndexContents => ({
  engine: 'meilisearch',
  ids: () => ids(server, index),
  faults: (ids) => faults(db, server, index, ids),
})

/** Ids that are asked for at once. */
const batch = 5_000

async function* ids(server: Server, index: string): AsyncGenerator<string[]> {
  for (let offset = 0; ; offset += batch) {
    const page = await server.askIfThere(index, (index) => index.getDocuments({ fields: ['id'], offset, limit: batch }))
    if (page === null || page.results.length === 0) return
    // What others have put there need not have an id that is a text.
    yield page.results.map(({ id }) => String(id))
  }
}

async function faults(db: Db, server: Server, index: string, ids: readonly string[]): Promise<EntryFault[]> {
  const known = await db.transaction().execute((trx) => documentsOf(trx, ids.filter(isId)))
  const documents = new Map(known.map((document) => [document.id, document]))
  const found: EntryFault[] = []
  for (const id of ids) {
    const entry = await server.askIfThere(index, (index) => entryIn(index, id))
    const document = documents.get(id)
    if (!entry !== !document) found.push({ document_id: id, problem: entry ? 'extra' : 'missing', left: [], lacks: [] })
    if (!entry || !document || entry.version !== indexVersion) continue
    const [there, wanted] = [wordsOf(entry), wordsOf(await entryOf(document))]
    const [left, lacks] = [shown([...there].filter((one) => !wanted.has(one))), shown([...wanted].filter((one) => !there.has(one)))]
    if (left.length + lacks.length > 0) found.push({ document_id: id, problem: 'stale', left, lacks })
  }
  return found
}

const isId = (text: string): boolean => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(text)

async function entryIn(index: Index<Entry>, id: string): Promise<Entry | null> {
  try {
    return await index.getDocument(id)
  } catch (error) {
    if (error instanceof MeilisearchApiError && error.cause?.code === 'document_not_found') return null
    throw error
  }
}

const fields = ['title', 'label_words', 'filename', 'content', 'joined', 'loose']
/** What each entry has of its own, or what is there twice. */
const unread = ['id', 'version', 'sequence', 'mime_family', 'labels']

/** Each word of an entry with its field, and each value with its name. */
function wordsOf(entry: Entry): Set<string> {
  const all = new Set<string>()
  for (const [name, value] of Object.entries(entry)) {
    if (unread.includes(name) || value === null) continue
    const field = name.replace(/_\d+$/, '')
    for (const one of [value].flat()) {
      if (!fields.includes(field)) all.add(`:${name}:${String(one)}`)
      else for (const word of String(one).split(' ')) if (word !== '') all.add(`${field} ${word}`)
    }
  }
  return all
}

const values: Readonly<Record<string, string>> = { owner_id: 'owner', mime_type: 'type', label_ids: 'label', source_id: 'source' }

/** As somebody reads them, each once. */
const shown = (some: readonly string[]): string[] =>
  [
    ...new Set(
      some.map((one) => {
        const [, name, value] = /^:(\w+):(.*)$/s.exec(one) ?? []
        return name === undefined ? read(one.slice(one.indexOf(' ') + 1)) : `${values[name] ?? name}:${value}`
      }),
    ),
  ].sort()
