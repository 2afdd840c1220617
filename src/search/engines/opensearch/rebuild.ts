/** Builds a new OpenSearch index beside the current one, and moves the alias to it. */
import { randomBytes } from 'node:crypto'
import { type IndexRebuild, SearchFailure } from '../../../ports/search-engine.ts'
import { indexDocuments, type Target } from './index-documents.ts'
import { fillingSettings, type IndexSettings, indexBody, liveSettings } from './mapping.ts'

/** Maximum time for the copies of a new index before it is used without them. */
const copyTimeout = '10m'

/** Returns the alias of the old index, if it is kept. */
export const keptAlias = (alias: string): string => `${alias}-old`

/** Names of the indexes of an alias: its name and random digits. No other index is ever removed. */
const nameOf = (alias: string): string => `${alias}-${randomBytes(8).toString('hex')}`
const isNameOf = (alias: string, name: string): boolean =>
  name.startsWith(`${alias}-`) && /^[0-9a-f]{16}$/.test(name.slice(alias.length + 1))

/** Creates the index of an alias, unless another process has. Throws SearchFailure, SERVICE_UNAVAILABLE. */
export async function createIndex(target: Target, alias: string, settings: IndexSettings): Promise<void> {
  // One name for all processes, so that only one of them creates it.
  const body = { ...indexBody(settings, liveSettings(settings)), aliases: { [alias]: {} } }
  try {
    await target.cluster.request('PUT', `/${alias}-${'0'.repeat(16)}`, body)
  } catch (error) {
    if (!(error instanceof SearchFailure) || (await indexesOf(target, alias)).length === 0) throw error
  }
}

/** Starts a rebuild. Removes the indexes of interrupted ones, and one that was kept. */
export async function startRebuild(target: Target, alias: string, settings: IndexSettings): Promise<IndexRebuild> {
  const { cluster } = target
  const current = await indexesOf(target, alias)
  await removeIndexes(target, alias, current)
  const next = nameOf(alias)
  await cluster.request('PUT', `/${next}`, indexBody(settings, fillingSettings))
  let isActive = false
  return {
    keptAs: keptAlias(alias),
    put: (ids) => (isActive ? indexDocuments(target, alias, ids, true) : indexDocuments(target, next, ids, false)),
    async complete() {
      await cluster.request('POST', `/${next}/_refresh`)
      return (await cluster.request<{ count: number }>('GET', `/${next}/_count`)).count
    },
    async swap(keepOld = false) {
      await cluster.request('PUT', `/${next}/_settings`, { index: liveSettings(settings) })
      await waitForCopies(target, next)
      const old = await indexesOf(target, alias)
      const actions = [
        ...old.map((index) => (keepOld ? { remove: { index, alias } } : { remove_index: { index } })),
        ...(keepOld ? old.map((index) => ({ add: { index, alias: keptAlias(alias) } })) : []),
        { add: { index: next, alias } },
      ]
      await cluster.request('POST', '/_aliases', { actions })
      isActive = true
    },
    async discard() {
      if (!isActive) await cluster.requestExisting('DELETE', `/${next}`)
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

/** Returns the indexes that an alias names: one, or none. */
export async function indexesOf({ cluster }: Target, alias: string): Promise<string[]> {
  return Object.keys((await cluster.requestExisting<Record<string, unknown>>('GET', `/_alias/${alias}`)) ?? {})
}

async function removeIndexes({ cluster }: Target, alias: string, except: readonly string[]): Promise<void> {
  const all = await cluster.request<readonly { index: string }[]>('GET', `/_cat/indices/${alias}-*`, undefined, {
    format: 'json',
    h: 'index',
  })
  for (const { index } of all) if (isNameOf(alias, index) && !except.includes(index)) await cluster.requestExisting('DELETE', `/${index}`)
}
