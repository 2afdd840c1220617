/**
 * How long does a search take, how good are its results, and how fast is the index built?
 *
 *   node bench/search.ts [--documents 100000] [--words 382] [--data-dir DIR] [--queries 60] [--best-of 1] [--engine postgres] [--only NAME] [--reindex]
 *                        [--fill] [--opensearch]
 *
 * A new database is filled with generated documents of `--words` words on average (search-corpus.ts) and indexed. `--data-dir` keeps it for the next run,
 * `--fill` stops after that. Each time is that of a whole HTTP request of one client, with highlights and facets, over a warm cache. `--best-of N` takes the
 * minimum of N, for a busy machine. `processors` is the CPU time of this process and PostgreSQL per request. search-quality.ts measures the quality of the
 * first ten results. With --opensearch, an OpenSearch node from Maven Central, or the cluster at OPENSEARCH_URL, takes turns with the embedded index, and so
 * does the Meilisearch server at MEILI_URL (with MEILI_API_KEY); see search-peers.ts. With `--data-dir`, their indexes stay on the servers for the next run.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, open as openFile, readdir, rm } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { reindex } from '../src/search/reindex.ts'
import type { SearchResults } from '../src/search/search.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { listen } from '../src/server/listen.ts'
import { fillDocuments } from './fill-documents.ts'
import { report } from './report/figure.ts'
import { labels, makeWords, seeded } from './search-corpus.ts'
import { withMeilisearch } from './search-meilisearch.ts'
import { withCluster, withOpenSearch } from './search-opensearch.ts'
import { comparePeers, type Peer } from './search-peers.ts'
import { type Judged, judge } from './search-quality.ts'

const { values } = parseArgs({
  options: {
    documents: { type: 'string', default: '100000' },
    words: { type: 'string', default: '382' },
    'data-dir': { type: 'string' },
    queries: { type: 'string', default: '60' },
    engine: { type: 'string', default: 'postgres' },
    'best-of': { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    fill: { type: 'boolean', default: false },
    reindex: { type: 'boolean', default: false },
    opensearch: { type: 'boolean', default: false },
  },
})
const count = Number(values.documents)
const hasPeers = values.opensearch || process.env.OPENSEARCH_URL !== undefined || process.env.MEILI_URL !== undefined
const rounds = Number(values.queries)
const bestOf = Number(values['best-of'])
/** Maximum number of documents for which all matches are ranked by default, to judge the first ten. */
const mostJudged = 200_000

interface Request {
  q?: string
  filters?: object
  fuzzy?: boolean
  page?: number
  /** POST /api/search/advanced instead */
  body?: object
  as?: 'admin' | 'big' | 'small'
}

interface Sample {
  readonly title: string
  readonly words: readonly string[]
}

console.log(machine())
const { app, close } = await open(values['data-dir'])
try {
  await run(app)
} finally {
  await close()
}

async function open(folder: string | undefined): Promise<{ app: App; close(): Promise<void> }> {
  const data_dir = folder ?? (await mkdtemp(join(tmpdir(), 'dms-bench-')))
  await chmod(data_dir, 0o711).catch(() => {})
  const flags = { ...flagsFor(data_dir), 'search.engine': values.engine }
  const app = await openApp(loadConfig({ env: {}, flags }).config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'embedded',
    creates: true,
    hasStatementTimeout: false,
  })
  return {
    app,
    close: async () => {
      await app.close()
      if (folder === undefined) await rm(data_dir, { recursive: true, force: true })
    },
  }
}

function flagsFor(data_dir: string) {
  return {
    data_dir,
    'server.port': 0,
    // A busy machine takes long to start a connection.
    'database.connect_timeout': '60s',
    'log.access': false,
    'limits.api_calls_per_minute': 0,
    'worker.embedded': false,
    'storage.min_free': 0,
  }
}

async function run(app: App): Promise<void> {
  const words = makeWords()
  const { known } = await app.db
    .selectFrom('documents')
    .select((eb) => eb.fn.countAll<number>().as('known'))
    .executeTakeFirstOrThrow()
  if (known === 0) await fillDocuments(app, count, words, Number(values.words))
  if (known === 0 || values.reindex) await index(app)
  if (values.fill) return withPeers(app, async () => {})
  await warm(app)
  const users = await app.db.selectFrom('users').select(['id', 'username', 'role']).orderBy('username').execute()
  const server = await listen(buildServer(app), app.config)
  try {
    const tokens = {
      admin: await token(app, users.find(({ role }) => role === 'admin')?.id ?? ''),
      big: await token(app, users.find(({ username }) => username === 'user000')?.id ?? ''),
      small: await token(app, users.find(({ username }) => username === 'user150')?.id ?? ''),
    }
    const ask = async (url: string, { as = 'admin', body, filters, ...query }: Request) => {
      const parameters = new URLSearchParams(
        Object.entries({ ...query, ...(filters ? { filters: JSON.stringify(filters) } : {}) }).map(([name, value]) => [
          name,
          String(value),
        ]),
      )
      const headers = { authorization: `Bearer ${tokens[as]}`, 'content-type': 'application/json' }
      const response = body
        ? await fetch(`${url}/api/search/advanced`, { method: 'POST', headers, body: JSON.stringify(body) })
        : await fetch(`${url}/api/search?${parameters}`, { headers })
      const answer = (await response.json()) as SearchResults
      if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(query)} ${JSON.stringify(answer)}`)
      return answer
    }
    const kinds = requestsBy(words, await samples(app))
    // The comparison with others measures the embedded index as well.
    if (!hasPeers) await measure(kinds, (request) => ask(server.url, request))
    if ((values.only === '' && count <= mostJudged && !hasPeers) || values.only === 'quality') await quality(app, words, await samples(app))
    const embedded = { name: 'embedded', url: server.url, usedTime: processorTime }
    await withPeers(app, async (peers) => {
      if (peers.length > 0) await comparePeers(kinds, [embedded, ...peers], ask)
    })
  } finally {
    await server.close(1000)
  }
}

/** Gives `use` the other engines, each with all documents in its index. */
async function withPeers({ config: { data_dir } }: App, use: (peers: readonly Peer[]) => Promise<void>): Promise<void> {
  const keep = values['data-dir'] !== undefined
  const options = { flags: flagsFor(data_dir), keep, index: keep ? 'dms-bench' : `dms-bench-${randomUUID()}`, processorTime }
  const { MEILI_URL, MEILI_API_KEY = '', OPENSEARCH_URL } = process.env
  const withMeili = (others: readonly Peer[]) =>
    MEILI_URL ? withMeilisearch(MEILI_URL, MEILI_API_KEY, options, (peer) => use([...others, peer])) : use(others)
  if (!values.opensearch && !OPENSEARCH_URL) return withMeili([])
  await withCluster(OPENSEARCH_URL, (cluster) => withOpenSearch(cluster, options, (peer) => withMeili([peer])))
}

/** Reads all files of the database, so that they are in the page cache as far as they fit. */
async function warm({ config }: App): Promise<void> {
  const folder = join(config.data_dir, 'postgres', 'base')
  const block = Buffer.alloc(1 << 20)
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = await openFile(join(entry.parentPath, entry.name))
    while ((await file.read(block, 0, block.length, null)).bytesRead > 0);
    await file.close()
  }
}

async function token(app: App, sub: string): Promise<string> {
  const iat = Math.floor(Date.now() / 1000)
  return app.tokens.sign({ sub, jti: randomUUID(), iat, exp: iat + 86_400, ver: 1 })
}

async function index(app: App): Promise<void> {
  const start = performance.now()
  const before = processorTime()
  let peakBytes = 0
  const { documents } = await reindex(app, {
    onProgress: () => {
      peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
    },
  })
  const took = (performance.now() - start) / 1000
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 as bytes from pg_class where relkind = 'r' and relname like 'search%'`.execute(
    app.db,
  )
  const bytes = rows[0]?.bytes ?? 0
  report({ measure: 'reindex', unit: 'documents/s', value: documents / took, better: 'higher' })
  report({ measure: 'index of a document', unit: 'kB', value: bytes / 1e3 / documents, better: 'lower' })
  console.log(
    `${documents} documents indexed in ${took.toFixed(0)} s: ${(documents / took).toFixed(0)} a second, ${(peakBytes / 1e6).toFixed(0)} MB of memory, ${(processorTime() - before).toFixed(0)} s of processors; the index has ${(bytes / 1e6).toFixed(0)} MB`,
  )
}

/** Documents from all parts of the archive, as a source of words. */
async function samples({ db }: App): Promise<Sample[]> {
  const share = Math.min(100, 150_000 / count)
  const { rows } = await sql<{ title: string; content: string }>`
    select title, content from documents tablesample system (${share}) repeatable (7)`.execute(db)
  return rows.map(({ title, content }) => ({ title, words: content.split(/\s+/).filter((word) => /^[a-z]+$/.test(word)) }))
}

/** The kinds of searches, each as often as requested. */
function requestsBy(words: readonly string[], documents: readonly Sample[], only = values.only): [string, Request[]][] {
  const random = seeded(4)
  const below = (limit: number) => Math.floor(random() * limit)
  const rankOf = new Map(words.map((word, rank) => [word, rank]))
  const document = () => documents[below(documents.length)] ?? { title: '', words: [] }
  const common = () => words[below(150)] ?? ''
  /** Returns a word of a document that is neither frequent nor made by a typo. */
  const wordOf = ({ words }: Sample, from: number, to: number): string => {
    const fit = words.filter((word) => (rankOf.get(word) ?? 0) >= from && (rankOf.get(word) ?? 0) < to)
    return fit[below(fit.length)] ?? words[below(words.length)] ?? 'the'
  }
  const middle = (one = document()) => wordOf(one, 300, 20_000)
  const rare = (one = document()) => wordOf(one, 20_000, 300_000)
  const twoOf = () => {
    const one = document()
    return `${middle(one)} ${middle(one)}`
  }
  const row = ({ words }: Sample, length: number) => {
    const at = below(Math.max(1, words.length - length))
    return words.slice(at, at + length).join(' ')
  }
  const typo = () => {
    let word = ''
    while (word.length < 6) word = middle()
    const at = 1 + below(word.length - 2)
    return word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2)
  }
  const month = () => ({ from: `202${1 + below(4)}-0${1 + below(9)}-01`, to: `202${below(4) + 5}-12-31` })
  const narrow = () => {
    const day = `202${1 + below(4)}-0${1 + below(9)}`
    return { from: `${day}-01`, to: `${day}-28` }
  }
  const mime = () => [['application/pdf'], ['image/jpeg', 'image/png'], ['text/html'], ['image/tiff']][below(4)] ?? []
  const aLabel = () => [`label${String(below(labels)).padStart(3, '0')}`]
  const must = (field: string, value: string, type = 'match') => ({ field, value, type })
  const kinds: [string, () => Request][] = [
    ['common word', () => ({ q: common() })],
    ['middling word', () => ({ q: middle() })],
    ['rare word', () => ({ q: rare() })],
    ['two words', () => ({ q: twoOf() })],
    ['two common words', () => ({ q: `${common()} ${common()}` })],
    ['three words', () => ({ q: `${twoOf()} ${middle()}` })],
    ['phrase of 2', () => ({ q: `"${row(document(), 2)}"` })],
    ['phrase of 3', () => ({ q: `"${row(document(), 3)}"` })],
    ['word without another', () => ({ q: `${middle()} -${common()}` })],
    ['prefix of 1', () => ({ q: middle().slice(0, 1) })],
    ['prefix of 3', () => ({ q: middle().slice(0, 3) })],
    ['word + prefix of 1', () => ({ q: `${middle()} ${middle().slice(0, 1)}` })],
    ['word + prefix of 3', () => ({ q: `${middle()} ${middle().slice(0, 3)}` })],
    ['typo', () => ({ q: typo(), fuzzy: true })],
    ['two words, fuzzy', () => ({ q: `${typo()} ${middle()}`, fuzzy: true })],
    ['common word, type', () => ({ q: common(), filters: { mime_types: mime() } })],
    ['middling word, type', () => ({ q: middle(), filters: { mime_types: mime() } })],
    ['common word, label', () => ({ q: common(), filters: { labels: aLabel() } })],
    ['middling word, label', () => ({ q: middle(), filters: { labels: aLabel() } })],
    ['common word, years', () => ({ q: common(), filters: { date_range: month() } })],
    ['common word, one month', () => ({ q: common(), filters: { date_range: narrow() } })],
    ['middling word, one month', () => ({ q: middle(), filters: { date_range: narrow() } })],
    ['common word, confidence', () => ({ q: common(), filters: { min_confidence: 0.5 } })],
    ['common word, big user', () => ({ q: common(), as: 'big' })],
    ['two words, big user', () => ({ q: twoOf(), as: 'big' })],
    ['common word, small user', () => ({ q: common(), as: 'small' })],
    ['two words, small user', () => ({ q: twoOf(), as: 'small' })],
    ['phrase, small user', () => ({ q: `"${row(document(), 2)}"`, as: 'small' })],
    ['small user, prefix of 1', () => ({ q: middle().slice(0, 1), as: 'small' })],
    ['common word, an owner (admin)', () => ({ q: common(), filters: { owner: 'user100' } })],
    ['deep page, common word', () => ({ q: common(), page: 50 })],
    [
      'advanced: must, should, not',
      () => ({
        body: { query: { must: [must('any', middle())], should: [must('title', middle())], must_not: [must('content', common())] } },
      }),
    ],
    ['advanced: should of three', () => ({ body: { query: { should: [1, 2, 3].map(() => must('content', middle())) } } })],
    ['advanced: title match', () => ({ body: { query: { must: [must('title', document().title.split(' ').at(-1) ?? '')] } } })],
    ['advanced: content contains', () => ({ body: { query: { must: [must('content', middle().slice(1, -1) || 'th', 'contains')] } } })],
    ['advanced: content exact', () => ({ body: { query: { must: [must('content', row(document(), 3), 'exact')] } } })],
    ['advanced: title exact', () => ({ body: { query: { must: [must('title', document().title, 'exact')] } } })],
    ['advanced: filters only', () => ({ body: { filters: { labels: aLabel(), mime_types: mime() } } })],
  ]
  return kinds.filter(([name]) => name.includes(only)).map(([name, make]) => [name, Array.from({ length: rounds }, make)])
}

async function measure(kinds: readonly [string, Request[]][], ask: (request: Request) => Promise<SearchResults>): Promise<void> {
  const table = new Table({
    head: [`${count} documents`, 'p50, ms', 'p95, ms', 'most, ms', 'processors, ms', 'found', 'capped'],
    colAligns: ['left', 'right', 'right', 'right', 'right', 'right', 'right'],
  })
  // A server runs for long: its first requests would count against whatever kind comes first.
  const first = kinds.flatMap(([, requests]) => requests.slice(0, 5))
  for (const request of [...first, ...first]) await ask(request)
  for (const [name, requests] of kinds) {
    const times: { ms: number; request: Request }[] = []
    let found = 0
    let capped = 0
    const used = processorTime()
    for (const request of requests) {
      let least = Number.POSITIVE_INFINITY
      let answer: SearchResults | undefined
      for (let time = 0; time < bestOf; time++) {
        const start = performance.now()
        answer = await ask(request)
        least = Math.min(least, performance.now() - start)
      }
      times.push({ ms: least, request })
      found += answer?.total ?? 0
      capped += Number(answer?.total_capped)
    }
    const each = (((processorTime() - used) * 1000) / requests.length / bestOf).toFixed(1)
    times.sort((one, other) => one.ms - other.ms)
    const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))]?.ms ?? Number.NaN
    report({ measure: name, unit: 'ms', value: at(0.5), p95: at(0.95), better: 'lower' })
    table.push([
      name,
      ...[0.5, 0.95, 1].map((share) => at(share).toFixed(1)),
      each,
      (found / requests.length).toFixed(0),
      `${Math.round((100 * capped) / requests.length)} %`,
    ])
    if (values.only !== '') console.log('slowest', JSON.stringify(times.slice(-3)))
  }
  if (kinds.length > 0) console.log(table.toString())
}

/** Prints what is lost by ranking only as many matches as have pages. */
async function quality(app: App, words: readonly string[], documents: readonly Sample[]): Promise<void> {
  const { id } = await app.db.selectFrom('users').select('id').where('username', '=', 'user000').executeTakeFirstOrThrow()
  const judged = requestsBy(words, documents, '').flatMap(([name, requests]): Judged[] =>
    ['common word', 'middling word', 'two words', 'two common words', 'prefix of 3', 'typo', 'common word, big user'].includes(name)
      ? [
          {
            name,
            queries: requests
              .slice(0, 20)
              .map(({ q = '', fuzzy = false, as }) => ({ text: q, fuzzy, filter: as === 'big' ? { ownerId: id } : {} })),
          },
        ]
      : [],
  )
  await judge(app, judged)
}

/** Returns the CPU seconds of this process and of PostgreSQL. */
function processorTime(): number {
  const postmaster = readFileSync(join(app.config.data_dir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]
  let ticks = 0
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      // Those that have ended are counted with their parent.
      if (pid === postmaster) ticks += [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0)
      else if (fields[1] === postmaster) ticks += Number(fields[11]) + Number(fields[12])
    } catch {
      // Ended meanwhile.
    }
  }
  const { user, system } = process.cpuUsage()
  return ticks / 100 + (user + system) / 1e6
}

function machine(): string {
  return `${availableParallelism()} cores, ${cpus()[0]?.model.trim()}, ${(totalmem() / 1e9).toFixed(0)} GB, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}`
}
