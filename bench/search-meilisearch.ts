/**
 * What does dms add to the time of Meilisearch? A part of bench/search.ts, which runs it if MEILI_URL (and MEILI_API_KEY) name a server: the same
 * documents are indexed there. Each request is sent to dms, and then the requests that dms sent to Meilisearch are repeated directly.
 */
import { randomUUID } from 'node:crypto'
import Table from 'cli-table3'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { startRebuild } from '../src/search/engines/meilisearch/rebuild.ts'
import { openServer } from '../src/search/engines/meilisearch/server.ts'
import { status } from '../src/search/reindex.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'

export interface MeilisearchServer {
  readonly url: string
  readonly apiKey: string
  readonly keep: boolean
}

type Kinds<R> = readonly (readonly [name: string, requests: readonly R[]])[]

/**
 * Prints the times; `ask` sends a request to us at `url`. `flags`: the settings under which the documents were put into the database.
 * With `keep` the index stays on the server for the next run.
 */
export async function measureMeilisearch<R>(
  { url, apiKey, keep }: MeilisearchServer,
  flags: Readonly<Record<string, string | number | boolean>>,
  kinds: Kinds<R>,
  ask: (url: string, request: R) => Promise<unknown>,
): Promise<void> {
  const index = keep ? 'dms-bench' : `dms-bench-${randomUUID()}`
  const settings = { ...flags, 'search.engine': 'meilisearch', 'search.url': url, 'search.api_key': apiKey, 'search.index': index }
  const app = await openApp(loadConfig({ env: {}, flags: settings }).config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'never',
    hasStatementTimeout: false,
  })
  try {
    await load(app)
    const server = await listen(buildServer(app), app.config)
    try {
      await compare(url, kinds, (request) => ask(server.url, request))
    } finally {
      await server.close(1000)
    }
  } finally {
    await app.close()
    if (!keep) await fetch(`${url}/indexes/${index}`, { method: 'DELETE', headers: { authorization: `Bearer ${apiKey}` } })
  }
}

/** Builds only the index of Meilisearch; that of PostgreSQL exists. */
async function load(app: App): Promise<void> {
  const { db, config, log } = app
  const { url, api_key: apiKey, index, timeout, batch_size: batchSize } = config.search
  const { documents: there, drift } = await status(app)
  if (drift === 0) return console.log(`Meilisearch: ${there} documents are there`)
  const start = performance.now()
  const server = openServer({ url, apiKey, timeout, maxResults: config.limits.search_max_results, log })
  const made = await startRebuild({ db, server, batchSize }, index)
  const documents = await db.selectFrom('documents').select('id').orderBy('id').execute()
  for (let from = 0; from < documents.length; from += batchSize) await made.put(documents.slice(from, from + batchSize).map(({ id }) => id))
  await made.complete()
  await made.swap()
  console.log(`Meilisearch: ${documents.length} documents indexed in ${((performance.now() - start) / 1000).toFixed(0)} s`)
}

interface Time {
  readonly ours: number
  /** the recorded requests to Meilisearch, repeated without dms: whole round trips */
  readonly baseline: number
  /** milliseconds of that as reported by Meilisearch, whole numbers */
  readonly own: number
  /** requests: two if there are more matches than have pages */
  readonly requests: number
}

async function compare<R>(url: string, kinds: Kinds<R>, ask: (request: R) => Promise<unknown>): Promise<void> {
  const table = new Table({
    head: [
      'Meilisearch',
      'questions',
      'ours p50',
      'p95, ms',
      'its own p50',
      'p95, ms',
      'its round trip p50',
      'p95, ms',
      'our overhead p50',
      'p95, ms',
    ],
    colAligns: ['left', ...Array.from({ length: 9 }, () => 'right' as const)],
  })
  for (const [name, requests] of kinds) {
    const times: Time[] = []
    for (const request of requests) {
      const questions = await listened(url, () => ask(request))
      // bench/search.ts measures the requests that PostgreSQL's index answers.
      if (questions.length === 0) continue
      for (const question of questions) await question()
      const start = performance.now()
      await ask(request)
      const between = performance.now()
      let own = 0
      for (const question of questions) own += (await question()).processingTimeMs
      times.push({ ours: between - start, baseline: performance.now() - between, own, requests: questions.length })
    }
    if (times.length === 0) continue
    const column = (of: (time: Time) => number) => {
      const all = times.map(of).sort((one, other) => one - other)
      return [0.5, 0.95].map((share) => (all[Math.min(all.length - 1, Math.floor(all.length * share))] ?? Number.NaN).toFixed(1))
    }
    table.push([
      name,
      (times.reduce((sum, { requests }) => sum + requests, 0) / times.length).toFixed(1),
      ...column(({ ours }) => ours),
      ...column(({ own }) => own),
      ...column(({ baseline }) => baseline),
      ...column(({ ours, baseline }) => ours - baseline),
    ])
  }
  console.log(table.toString())
}

/** Records the requests to Meilisearch while `during` runs. */
async function listened(url: string, during: () => Promise<unknown>): Promise<(() => Promise<{ processingTimeMs: number }>)[]> {
  const heard: (() => Promise<{ processingTimeMs: number }>)[] = []
  const plainly = globalThis.fetch
  globalThis.fetch = (input, init) => {
    const address = input instanceof Request ? input.url : String(input)
    if (address.startsWith(url) && address.endsWith('/search')) {
      const { signal: _, ...again } = init ?? {}
      heard.push(async () => (await (await plainly(address, again)).json()) as { processingTimeMs: number })
    }
    return plainly(input, init)
  }
  try {
    await during()
  } finally {
    globalThis.fetch = plainly
  }
  return heard
}
