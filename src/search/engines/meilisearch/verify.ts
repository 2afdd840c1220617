/** Compares a Meilisearch index with the documents. */
import { type Index, MeilisearchApiError } from 'meilisearch'
import type { Db } from '../../../db/pool.ts'
import type { EntryFault, IndexContents } from '../../../ports/search-engine.ts'
import { differenceOf, type Entry, entryFaults, publicNameOf } from '../entries.ts'
import { entryOf, indexVersion } from './document.ts'
import type { Server } from './server.ts'
import { decodeWord } from './word-encoding.ts'

export const contents = (db: Db, server: Server, index: string): IndexContents => ({
  engine: 'meilisearch',
  ids: () => ids(server, index),
  faults: (ids) => faults(db, server, index, ids),
})

/** Ids per request. */
const pageSize = 5_000

async function* ids(server: Server, index: string): AsyncGenerator<string[]> {
  for (let offset = 0; ; offset += pageSize) {
    const page = await server.requestExisting(index, (index) => index.getDocuments({ fields: ['id'], offset, limit: pageSize }))
    if (page === null || page.results.length === 0) return
    // Entries of other programs can have numbers as ids.
    yield page.results.map(({ id }) => String(id))
  }
}

const faults = (db: Db, server: Server, index: string, ids: readonly string[]): Promise<EntryFault[]> =>
  entryFaults(db, ids, {
    version: indexVersion,
    load: (id) => server.requestExisting(index, (index) => entryIn(index, id)),
    async compare(entry, document) {
      const { left, lacks } = differenceOf(wordsOf(entry), wordsOf(await entryOf(document)))
      return left.length + lacks.length === 0 ? null : { left: describe(left), lacks: describe(lacks) }
    },
  })

async function entryIn(index: Index<Entry>, id: string): Promise<Entry | null> {
  try {
    return await index.getDocument(id)
  } catch (error) {
    if (error instanceof MeilisearchApiError && error.cause?.code === 'document_not_found') return null
    throw error
  }
}

const textFields = ['title', 'label_words', 'filename', 'content', 'joined', 'loose']
/** Fields that are not compared: they are unique to the entry or redundant. */
const ignoredFields = ['id', 'version', 'sequence', 'mime_family', 'labels', 'document_year']

/** Returns the words of an entry with their fields, and its values with their names. */
function wordsOf(entry: Entry): Set<string> {
  const compared = Object.entries(entry).filter(([name, value]) => !ignoredFields.includes(name) && value !== null)
  return new Set(compared.flatMap(([name, values]) => [values].flat().flatMap((value) => wordsOfValue(name, String(value)))))
}

function wordsOfValue(name: string, value: string): string[] {
  const field = name.replace(/_\d+$/, '')
  if (!textFields.includes(field)) return [`:${name}:${value}`]
  return value
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => `${field} ${word}`)
}

/** Returns the distinct words and values in readable form. */
const describe = (words: readonly string[]): string[] =>
  [
    ...new Set(
      words.map((one) => {
        const [, name, value] = /^:(\w+):(.*)$/s.exec(one) ?? []
        return name === undefined ? decodeWord(one.slice(one.indexOf(' ') + 1)) : `${publicNameOf(name)}:${value}`
      }),
    ),
  ].sort()
