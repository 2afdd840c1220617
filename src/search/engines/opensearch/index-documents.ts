/** Writes documents to an index in bulk requests. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import { AppError } from '../../../errors.ts'
import { SearchFailure } from '../../../ports/search-engine.ts'
import { batchesOf, loadDocuments } from '../../indexed-documents.ts'
import type { Cluster } from './cluster.ts'
import { entryOf } from './entry.ts'
import { hasStemmer } from './mapping.ts'

export interface Target {
  readonly db: Db
  readonly cluster: Cluster
  /** documents per request */
  readonly batchSize: number
}

/** Maximum size of the texts of a batch. Entries are about twice as large, or larger with several languages. */
const maxBytes = 5_000_000
/** Maximum size of a request with several documents. OpenSearch accepts 100 MB. */
const maxRequestBytes = 20_000_000
/** Delays before a request, or its rejected part, is sent again to a cluster that is too busy. */
const backoffMs = [100, 200, 400, 800, 1600, 3200, 6400]
/** Maximum number of failed documents that an error names. */
const maxNamed = 5

/** Lines of JSON. */
type Action = readonly [operation: string, entry?: string]

interface BulkResponse {
  readonly errors: boolean
  readonly items: readonly Record<string, { _id: string; status: number; error?: { type: string; reason: string } }>[]
}

/** The alias of an index is missing. */
export class MissingIndex extends Error {}

interface WriteOptions {
  /** Waits until searches reflect the changes. */
  readonly isSearchable: boolean
}

/**
 * Updates the entries of these documents, and removes those of deleted ones. Throws MissingIndex or SERVICE_UNAVAILABLE; once all
 * others are written, SearchFailure with the rejected documents.
 */
export async function indexDocuments(target: Target, alias: string, documentIds: readonly string[], options: WriteOptions): Promise<void> {
  const ids = [...new Set(documentIds)].sort()
  for (const batch of await batchesOf(target.db, ids, { documents: target.batchSize, bytes: maxBytes }))
    await indexBatch(target, alias, batch, options)
}

/**
 * Indexes a batch. Reads documents again whose version was too low, and writes them with a higher one: another process has written them, or the clock
 * of the database was set back.
 */
async function indexBatch({ db, cluster }: Target, alias: string, batch: readonly string[], options: WriteOptions): Promise<void> {
  let left = batch
  for (let minVersion = 0; left.length > 0; ) {
    const versions = new Map<string, number>()
    for (const actions of requestsOf(await actionsOf(db, left, minVersion))) await send(cluster, alias, actions, options, versions)
    left = [...versions.keys()]
    minVersion = Math.max(...versions.values()) + 1
  }
}

/** Divides actions into requests of at most `maxBytes`. A larger action is a request of its own. */
export function requestsOf(actions: readonly Action[], maxBytes = maxRequestBytes): Action[][] {
  const requests: Action[][] = []
  let bytesLeft = 0
  for (const action of actions) {
    const size = action.reduce((sum, line = '') => sum + Buffer.byteLength(line) + 1, 0)
    bytesLeft -= size
    if (bytesLeft >= 0) requests.at(-1)!.push(action)
    else {
      requests.push([action])
      bytesLeft = maxBytes - size
    }
  }
  return requests
}

/**
 * Returns the actions for a batch. Their version is the time of the database before the documents were read, but at least `minVersion`. Of two writers,
 * the one with the higher version has read all changes that the other has read. OpenSearch rejects the lower version, even after the deletion of a
 * document.
 */
async function actionsOf(db: Db, ids: readonly string[], minVersion: number): Promise<Action[]> {
  const [version, documents] = await db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ version: string }>`select (extract(epoch from clock_timestamp()) * 1e6)::bigint::text as version`.execute(
      trx,
    )
    return [Math.max(Number(rows[0]!.version), minVersion), await loadDocuments(trx, ids)] as const
  })
  await addLanguages(db, [...new Set(documents.flatMap(({ language }) => language.split('+')))].filter(hasStemmer))
  const entries = new Map<string, string>()
  for (const document of documents) entries.set(document.id, JSON.stringify(await entryOf(document)))
  return ids.map((_id) => {
    const entry = entries.get(_id)
    const how = { _id, version, version_type: 'external' }
    return entry ? [JSON.stringify({ index: how }), entry] : [JSON.stringify({ delete: how })]
  })
}

/** Records the languages whose stems searches compare. */
async function addLanguages(db: Db, languages: readonly string[]): Promise<void> {
  if (languages.length === 0) return
  await sql`
    insert into search_languages (language) select language from unnest(${languages.toSorted()}::text[]) language
    where language not in (select language from search_languages) on conflict do nothing`.execute(db)
}

/** The version of a document in the index, in the reason of a conflict. */
const currentVersion = /current version \[(\d+)\]/

/** Sends actions. If the index has the same or a later version of a document, records that version in `versions`. */
async function send(
  cluster: Cluster,
  alias: string,
  actions: readonly Action[],
  { isSearchable }: WriteOptions,
  versions: Map<string, number>,
): Promise<void> {
  // A missing index must not be created with a mapping of OpenSearch's choice.
  const query = { require_alias: true, ...(isSearchable ? { refresh: 'wait_for' } : {}) }
  const failed: string[] = []
  let left = actions
  // OpenSearch ignores require_alias for deletions, and creates an index with the name of the alias.
  if (actions.every(([, entry]) => !entry) && !(await cluster.requestExisting('GET', `/_alias/${alias}`))) throw new MissingIndex()
  for (let attempt = 0; left.length > 0; attempt++) {
    const { errors, items } = await cluster.request<BulkResponse>('POST', `/${alias}/_bulk`, left.flat(), query)
    if (!errors) break
    const results = items.map((item) => Object.values(item)[0]!)
    if (results.some(({ error }) => error?.type === 'index_not_found_exception')) throw new MissingIndex()
    const busy = left.filter((_, nth) => isBusy(results[nth]!.status))
    for (const { _id, status, error } of results) {
      // 404: a deleted document had no entry.
      if (!error || status === 404 || isBusy(status)) continue
      const [, version] = (status === 409 && currentVersion.exec(error.reason)) || []
      if (version === undefined) failed.push(`${_id}: ${error.type}: ${error.reason}`)
      else versions.set(_id, Number(version))
    }
    left = busy
    if (busy.length === 0) break
    const delayMs = backoffMs[attempt]
    if (delayMs === undefined) throw new AppError('SERVICE_UNAVAILABLE', {}, 'The search engine is too busy to index documents.')
    await sleep(delayMs)
  }
  if (failed.length === 0) return
  const more = failed.length > maxNamed ? `; ${failed.length - maxNamed} more` : ''
  throw new SearchFailure(`it rejected ${failed.length} of ${actions.length} documents: ${failed.slice(0, maxNamed).join('; ')}${more}`)
}

/** Whether the cluster is too busy for a document or has lost its node. */
const isBusy = (status: number): boolean => status === 429 || status >= 500
