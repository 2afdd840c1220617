/** Compares an OpenSearch index with the documents. */
import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../../../db/pool.ts'
import type { EntryFault, IndexContents } from '../../../ports/search-engine.ts'
import { differenceOf, type Entry, entryFaults, publicNameOf } from '../entries.ts'
import type { Cluster } from './cluster.ts'
import { entryOf } from './entry.ts'
import { indexVersion, samePosition, textFields } from './mapping.ts'

/** Ids per request. */
const pageSize = 10_000

export const contents = (db: Db, cluster: Cluster, index: string): IndexContents => ({
  engine: 'opensearch',
  ids: () => ids(cluster, index),
  faults: (ids) => faults(db, cluster, index, ids),
})

async function* ids(cluster: Cluster, index: string): AsyncGenerator<string[]> {
  for (let last: readonly unknown[] = ['']; ; ) {
    const body = {
      query: { match_all: {} },
      sort: [{ id: 'asc' }],
      search_after: last,
      size: pageSize,
      _source: false,
      track_total_hits: false,
    }
    const page = await cluster.requestExisting<{ hits: { hits: readonly { _id: string; sort: readonly unknown[] }[] } }>(
      'POST',
      `/${index}/_search`,
      body,
      { allow_partial_search_results: false },
    )
    const hits = page?.hits.hits ?? []
    if (hits.length === 0) return
    yield hits.map(({ _id }) => _id)
    last = hits.at(-1)!.sort
  }
}

/** Fields that are not compared: they are unique to the entry, redundant or not stored. */
const ignoredFields = new Set(['id', 'version', 'any', 'stems', 'title_order', 'values', 'value_words', 'label_names'])

const faults = (db: Db, cluster: Cluster, index: string, ids: readonly string[]): Promise<EntryFault[]> =>
  entryFaults(db, ids, {
    version: indexVersion,
    load: async (id) =>
      (await cluster.requestExisting<{ _source: Entry }>('GET', `/${index}/_doc/${encodeURIComponent(id)}`))?._source ?? null,
    async compare(entry, document) {
      const expected: Entry = JSON.parse(JSON.stringify(await entryOf(document)))
      const names = Object.keys({ ...entry, ...expected }).filter(
        (name) => !ignoredFields.has(name) && !isDeepStrictEqual(entry[name], expected[name]),
      )
      return names.length === 0 ? null : differenceOf(wordsOf(entry, names), wordsOf(expected, names))
    },
  })

/** Returns the words of the named fields, and their values in readable form. */
function wordsOf(entry: Entry, names: readonly string[]): Set<string> {
  const valuesOf = (name: string) => [entry[name]].flat().filter((value) => value !== null && value !== undefined)
  return new Set(names.flatMap((name) => valuesOf(name).flatMap((value) => wordsOfValue(name, String(value)))))
}

function wordsOfValue(name: string, value: string): string[] {
  if (!(textFields as readonly string[]).includes(name)) return [`${publicNameOf(name)}:${value.replace('\u0001', ' ')}`]
  return value.split(/[ |]/).filter((word) => word !== '' && word !== samePosition)
}
