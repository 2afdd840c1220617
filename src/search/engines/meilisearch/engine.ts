/** Search by a Meilisearch server. Queries that it cannot express use the PostgreSQL index, which withEmbedded() maintains. */
import { MeilisearchApiError } from 'meilisearch'
import type { Db } from '../../../db/pool.ts'
import {
  type AdvancedQuery,
  type IndexStatus,
  noHits,
  type SearchAnswer,
  type SearchEngine,
  type SearchQuery,
} from '../../../ports/search-engine.ts'
import { type Highlighting, hits } from '../../hits.ts'
import { parse, type Term } from '../../query/parser.ts'
import { typoExpansions } from '../../vocabulary/expansions.ts'
import { type Counted, facetsOf, sortCounts } from '../facets.ts'
import { answerWithoutIndex, documentCount, loadInitialDocuments } from '../index-state.ts'
import { compileQuery } from '../postgres/compile/query.ts'
import { type Conditions, conditionsOf } from './conditions.ts'
import { indexVersion } from './document.ts'
import { send } from './index-documents.ts'
import { filterOf, isExpressible, type MeilisearchQuery, toMeilisearchQuery } from './query.ts'
import { startRebuild } from './rebuild.ts'
import { openServer, type ServerOptions } from './server.ts'
import { contents } from './verify.ts'

export interface MeilisearchOptions extends ServerOptions {
  readonly db: Db
  /** the PostgreSQL engine */
  readonly postgres: SearchEngine
  /** name of the index */
  readonly index: string
  /** documents per request */
  readonly batchSize: number
}

/** Fields of both a search and an advanced search. */
type CommonQuery = Omit<SearchQuery, 'text'>

/** Opens the engine. It sends no request before it is used. */
export function openMeilisearch({ db, postgres, index, batchSize, ...options }: MeilisearchOptions): SearchEngine {
  const server = openServer(options)
  const target = { db, server, batchSize }

  const search = async (query: SearchQuery): Promise<SearchAnswer> => {
    const terms = parse(query.text)
    if (terms.length === 0) return noHits
    return (isExpressible(terms) ? await ask({ terms, filter: [] }, query) : null) ?? postgres.search(query)
  }

  const advanced = async (query: AdvancedQuery): Promise<SearchAnswer> => {
    const conditions = conditionsOf(query)
    return (conditions && (await ask(conditions, { ...query, fuzzy: false }))) ?? postgres.advanced(query)
  }

  /** Returns null if the index has the settings of an earlier version. */
  const ask = async ({ terms, filter: more }: Conditions, query: CommonQuery): Promise<SearchAnswer | null> => {
    const filter = filterOf(query.filter)
    if (filter === null) return noHits
    const [matches, options] = await Promise.all([
      find(toMeilisearchQuery(terms, query), [...filter, ...more], query).catch(undefinedIfOutdated),
      highlighting(db, terms, query),
    ])
    if (matches === undefined) {
      server.prepare(index).catch(() => {})
      return null
    }
    if (matches === null) return answerWithoutIndex(db)
    const [facets, page] = await Promise.all([matches.facets(), hits(db, matches.page, options)])
    return { hits: page, total: matches.total, isCapped: matches.isCapped, facets }
  }

  const find = async ({ q, attributes }: MeilisearchQuery, filter: string[], { offset, limit, maxResults }: CommonQuery) => {
    const parameters = {
      filter,
      matchingStrategy: 'all' as const,
      locales: ['eng' as const],
      ...(attributes ? { attributesToSearchOn: [...attributes] } : {}),
    }
    const page = {
      offset,
      limit: Math.min(limit, Math.max(0, maxResults - offset)),
      attributesToRetrieve: ['id'],
      showRankingScore: true,
      facets: ['mime_type', 'labels', 'document_year'],
    }
    const answer = await server.requestExisting(index, (index) => index.search(q, { ...parameters, ...page }))
    if (answer === null) return null
    const { hits, estimatedTotalHits, facetDistribution: { mime_type, labels, document_year } = {} } = answer
    const isCapped = estimatedTotalHits > maxResults
    return {
      page: hits.map(({ id, _rankingScore }) => ({ document_id: id, score: _rankingScore ?? 0 })),
      total: Math.min(estimatedTotalHits, maxResults),
      isCapped,
      facets: async (): Promise<SearchAnswer['facets']> => {
        if (!isCapped) return { mime_types: sortCounts(mime_type), labels: sortCounts(labels), years: document_year ?? {} }
        // Meilisearch counts all matches. Facets cover only the matches on pages.
        const counted = { ...parameters, limit: maxResults, attributesToRetrieve: ['mime_type', 'labels', 'document_year'] }
        const { hits } = await server.request(index, (index) => index.search(q, counted))
        return facetsOf(hits as unknown as Counted[])
      },
    }
  }

  const status = async (): Promise<IndexStatus> => {
    const [own, expected] = await Promise.all([
      server.requestExisting(index, async (index) => {
        const [{ numberOfDocuments }, { total }, { updatedAt }] = await Promise.all([
          index.getStats(),
          index.getDocuments({ filter: `version = ${indexVersion}`, limit: 0, fields: ['id'] }),
          index.getRawInfo(),
        ])
        return { all: numberOfDocuments, documents: total, updatedAt: new Date(updatedAt) }
      }),
      documentCount(db),
    ])
    const { all, documents, updatedAt } = own ?? { all: 0, documents: 0, updatedAt: null }
    return {
      index,
      documents,
      outdated: all - documents,
      version: indexVersion,
      updatedAt,
      // Only counts are compared here; verify() compares ids.
      missing: Math.max(0, expected - all),
      extra: Math.max(0, all - expected),
    }
  }

  return {
    name: 'meilisearch',
    async refresh(ids) {
      const exists = (await server.requestExisting(index, (index) => index.getRawInfo())) !== null
      const refreshed = exists ? ids : [...ids, ...(await loadInitialDocuments(db))]
      await server.prepare(index)
      for (const task of await send(target, index, refreshed)) await server.waitForTask(task)
    },
    search,
    advanced,
    similar: (query) => postgres.similar(query),
    count: async () => (await status()).documents,
    status,
    contents: () => [contents(db, server, index)],
    rebuild: () => startRebuild(target, index),
    async optimize() {},
    async check() {
      await server.check()
      const answer = await server.requestExisting(index, (index) => index.search('', { limit: 0 }))
      if (answer === null) await answerWithoutIndex(db)
    },
  }
}

/** Returns undefined if the index has the settings of an earlier version, without an attribute for filters or facets. */
function undefinedIfOutdated(error: Error): undefined {
  const code = error.cause instanceof MeilisearchApiError ? error.cause.cause?.code : undefined
  if (code !== 'invalid_search_filter' && code !== 'invalid_search_facets') throw error
}

/** Returns the markers of a query and the tsqueries that choose the passage of a long document. */
async function highlighting(db: Db, terms: readonly Term[], { fuzzy, highlight, filter }: CommonQuery): Promise<Highlighting> {
  const expansions = highlight && fuzzy ? await typoExpansions(db, terms) : new Map<string, string[]>()
  const compiled = highlight ? compileQuery(terms, expansions, filter, new Map()) : null
  if (!compiled || compiled.all === null) return { markers: {}, passage: null }
  const markedFields = ['title', 'content', 'filename', 'labels'] as const
  const markerOf = (name: string) => ({ terms: terms.filter(({ field }) => field === null || field === name), expansions })
  return {
    markers: Object.fromEntries(markedFields.map((name) => [name, markerOf(name)])),
    passage: { all: compiled.all, any: compiled.any },
  }
}
