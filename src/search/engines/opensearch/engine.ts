/** Search by an OpenSearch cluster. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import { type IndexStatus, noHits, type SearchAnswer, type SearchEngine, type SearchQuery } from '../../../ports/search-engine.ts'
import { hits, noHighlighting } from '../../hits.ts'
import { parse } from '../../query/parser.ts'
import { answerWithoutIndex, documentCount, loadInitialDocuments, missingIndex } from '../index-state.ts'
import { matchAdvanced } from './advanced.ts'
import { type ClusterOptions, openCluster } from './cluster.ts'
import { filterOf } from './filter.ts'
import { highlightingOf } from './highlight.ts'
import { indexDocuments, MissingIndex } from './index-documents.ts'
import { type IndexSettings, indexVersion } from './mapping.ts'
import { countEntries, findHits, match, orderOf } from './matches.ts'
import { toQuery } from './query.ts'
import { createIndex, indexesOf, startRebuild } from './rebuild.ts'
import { similarTo } from './similar.ts'
import { contents } from './verify.ts'

export interface OpenSearchOptions extends ClusterOptions, IndexSettings {
  readonly db: Db
  /** alias of the index */
  readonly index: string
  /** documents per request */
  readonly batchSize: number
  /** Returns whether the first change may create the index. Otherwise, only a reindex does. */
  readonly mayCreate: () => Promise<boolean>
}

const byScore = [{ field: 'score', order: 'desc' }] as const

/** Opens the engine. It sends no request before it is used. */
export function openOpenSearch({ db, index, batchSize, mayCreate, ...options }: OpenSearchOptions): SearchEngine {
  const cluster = openCluster(options)
  const target = { db, cluster, batchSize }

  const search = async (query: SearchQuery): Promise<SearchAnswer> => {
    const terms = parse(query.text)
    if (terms.length === 0) return noHits
    const matches = await match(cluster, index, toQuery(terms, query, await languages()), byScore, query)
    if (matches === null) return answerWithoutIndex(db)
    const { page, ...rest } = matches
    const highlighting = query.highlight
      ? highlightingOf(db, query, (name) => ({ terms: terms.filter(({ field }) => field === null || field === name) }))
      : noHighlighting
    return { ...rest, hits: await hits(db, page, highlighting) }
  }

  const languages = async (): Promise<string[]> => {
    const { rows } = await sql<{ language: string }>`select language from search_languages order by language`.execute(db)
    return rows.map(({ language }) => language)
  }

  const status = async (): Promise<IndexStatus> => {
    const [found, expected, [name]] = await Promise.all([countEntries(cluster, index), documentCount(db), indexesOf(target, index)])
    const all = found ?? 0
    const documents = (all > 0 && (await countEntries(cluster, index, { term: { version: indexVersion } }))) || 0
    return {
      index: name ?? index,
      documents,
      outdated: all - documents,
      version: indexVersion,
      updatedAt: found === null ? null : await lastChange(),
      missing: Math.max(0, expected - all),
      extra: Math.max(0, all - expected),
    }
  }

  const lastChange = async (): Promise<Date | null> => {
    const newest = { query: { match_all: {} }, sort: orderOf([{ field: 'updated_at', order: 'desc' }]) }
    const found = await findHits(cluster, index, newest, 1)
    const [at] = found?.hits[0]?.sort ?? []
    return typeof at === 'number' ? new Date(at) : null
  }

  return {
    name: 'opensearch',
    async refresh(ids) {
      try {
        await indexDocuments(target, index, ids, { isSearchable: true })
      } catch (error) {
        if (!(error instanceof MissingIndex)) throw error
        await cluster.check()
        if (!(await mayCreate())) throw missingIndex()
        const initial = await loadInitialDocuments(db)
        await createIndex(target, index, options)
        await indexDocuments(target, index, [...ids, ...initial], { isSearchable: true })
      }
    },
    search,
    async advanced(query) {
      const found = await matchAdvanced(db, cluster, index, query, await languages())
      if (found === null) return answerWithoutIndex(db)
      const { page, ...rest } = found.matches
      return { ...rest, hits: await hits(db, page, found.highlighting) }
    },
    async similar({ documentId, filter, limit }) {
      const { filter: required, mustNot } = filterOf(filter)
      const query = { bool: { filter: required, must_not: mustNot, must: [similarTo(index, documentId)] } }
      const matches = await match(cluster, index, query, byScore, { offset: 0, limit, maxResults: limit })
      return matches === null ? [] : hits(db, matches.page, noHighlighting)
    },
    count: async () => (await status()).documents,
    status,
    contents: () => [contents(db, cluster, index)],
    async optimize() {},
    async rebuild() {
      await cluster.check()
      return startRebuild(target, index, options)
    },
    async check() {
      await cluster.check()
      if ((await countEntries(cluster, index)) === null) await answerWithoutIndex(db)
    },
  }
}
