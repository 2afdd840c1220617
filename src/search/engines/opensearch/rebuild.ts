/** Builds a new OpenSearch index beside the current one, and moves the alias to it. */
import { randomBytes } from 'node:crypto'
import { type IndexRebuild, SearchFailure } from '../../../ports/search-engine.ts'
import { indexDocuments, MissingIndex, type Target } from './index-documents.ts'
import { fillingSettings, type IndexSettings, indexBody, liveSettings } from './mapping.ts'
import { countEntries } from './matches.ts'

/** Maximum time for the copies of a new index before it is used without them. */
const copyTimeout = '10m'

/** Returns the alias of the old index, if it is kept. */
const keptAlias = (alias: string): string => `${alias}-old`

/** Returns the alias through which a new index is filled. A write through an alias never creates an index. */
const fillingAlias = (index: string): string => `${index}-filling`

/** Names of the indexes of an alias: its name and random digits. No other index is ever removed. */
const nameOf = (alias: string): string => `${alias}-${randomBytes(8).toString('hex')}`
const isNameOf = (alias: string, name: string): boolean =>
  name.startsWith(`${alias}-`) && /^[0-9a-f]{16}$/.test(name.slice(alias.length + 1))

/** Creates the index of an alias, unless another process has. Throws SearchFailure, SERVICE_UNAVAILABLE. */
export async function createIndex(target: Target, alias: string, settings: IndexSettings): Promise<void> {
  // One name for all processes: only one of them creates the index.
  const body = { ...indexBody(settings, liveSettings(settings)), aliases: { [alias]: {} } }
  try {
    await target.cluster.request('PUT', `/${alias}-${'0'.repeat(16)}`, body)
  } catch (error) {
    if (!(error instanceof SearchFailure) || (await indexesOf(target, alias)).length === 0) throw error
  }
}

/** Starts a rebuild. Removes the indexes of interrupted rebuilds and a kept index. */
export async function startRebuild(target: Target, alias: string, settings: IndexSettings): Promise<IndexRebuild> {
  const { cluster } = target
  await removeUnused(target, alias)
  const next = nameOf(alias)
  const filling = fillingAlias(next)
  await cluster.request('PUT', `/${next}`, { ...indexBody(settings, fillingSettings), aliases: { [filling]: {} } })
  let isActive = false
  let mayBeActive = false
  return {
    keptAs: keptAlias(alias),
    async put(ids) {
      try {
        await indexDocuments(target, isActive ? alias : filling, ids, { isSearchable: isActive })
      } catch (error) {
        throw error instanceof MissingIndex ? new SearchFailure('the new index was removed while it was filled.') : error
      }
    },
    async complete() {
      await cluster.request('POST', `/${next}/_refresh`)
      return (await countEntries(cluster, next)) ?? 0
    },
    async swap({ keepOld = false } = {}) {
      await cluster.request('PUT', `/${next}/_settings`, { index: liveSettings(settings) })
      await waitForCopies(target, next)
      const old = await indexesOf(target, alias)
      const actions = [
        ...old.map((index) => (keepOld ? { remove: { index, alias } } : { remove_index: { index } })),
        ...(keepOld ? old.map((index) => ({ add: { index, alias: keptAlias(alias) } })) : []),
        { remove: { index: next, alias: filling } },
        { add: { index: next, alias } },
      ]
      mayBeActive = true
      try {
        await cluster.request('POST', '/_aliases', { actions })
      } catch (error) {
        // The answer was lost. The second attempt is refused because the first one has removed the old index.
        if (!(await indexesOf(target, alias).catch((): string[] => [])).includes(next)) throw error
      }
      isActive = true
    },
    async discard() {
      // A swap without an answer may still take place. The next rebuild removes the index if it is unused.
      if (!mayBeActive) await cluster.requestExisting('DELETE', `/${next}`)
    },
  }
}

/** Waits until the copies of an index are complete. Copies without a node are not waited for. */
async function waitForCopies({ cluster }: Target, index: string): Promise<void> {
  const query = { wait_for_no_initializing_shards: true, timeout: '5s', level: 'indices' }
  const deadline = performance.now() + 1000 * 60 * Number.parseInt(copyTimeout, 10)
  while (performance.now() < deadline) {
    const health = await cluster.requestExisting<{ timed_out: boolean }>('GET', `/_cluster/health/${index}`, undefined, query, [408])
    if (health !== null && !health.timed_out) return
  }
}

/** Returns the index of an alias as a list of one or none. */
export async function indexesOf({ cluster }: Target, alias: string): Promise<string[]> {
  return Object.keys((await cluster.requestExisting<Record<string, unknown>>('GET', `/_alias/${alias}`)) ?? {})
}

/** Removes unused indexes of an alias: indexes of interrupted rebuilds and a kept index. */
async function removeUnused({ cluster }: Target, alias: string): Promise<void> {
  const all = await cluster.request<Record<string, { aliases: Record<string, unknown> }>>('GET', `/${alias}-*/_alias`)
  for (const [index, { aliases }] of Object.entries(all))
    if (isNameOf(alias, index) && !Object.hasOwn(aliases, alias)) await cluster.requestExisting('DELETE', `/${index}`)
}
