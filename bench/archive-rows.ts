/**
 * Does the table `documents` answer as fast with many rows? Generates rows by SQL, without files and texts, and measures requests in this process.
 *
 *   node bench/archive-rows.ts [--rows 1000000] [--waiting 100000] [--rounds 40] [--folder FOLDER] [--keep]
 *
 * One user owns half of the rows, 100 others the rest. A rare value has one row in 100,000. Each document has a finished job, and `--waiting` of them
 * a waiting one. `--keep` leaves the rows in the folder, and a later run with it measures them again.
 */
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { sql } from 'kysely'
import type { Actor } from '../src/actor.ts'
import { localTransport } from '../src/client/local.ts'
import { loadConfig } from '../src/config/load.ts'
import type { Db } from '../src/db/pool.ts'
import * as leases from '../src/jobs/leases.ts'
import type { Job } from '../src/jobs/queue.ts'
import { openLog } from '../src/log/log.ts'
import { openApp, openConfiguredDatabase } from '../src/open-app.ts'
import { median, quantile } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    waiting: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '40' },
    keep: { type: 'boolean', default: false },
    folder: { type: 'string', default: tmpdir() },
  },
})
const rowCount = Number(values.rows)
const waitingCount = Number(values.waiting)
const rounds = Number(values.rounds)
const batchRows = 100_000
/** Jobs that are leased and completed. */
const leaseCount = 200
/** Tables that are filled without their indexes, foreign keys and triggers. */
const filledTables = ['documents', 'document_labels', 'jobs_live', 'jobs_completed']

const folder = values.keep ? join(values.folder, 'dms-bench-rows') : await mkdtemp(join(values.folder, 'dms-bench-rows-'))
await mkdir(folder, { recursive: true })
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(folder, 0o711)
const { config } = loadConfig({
  env: {},
  flags: {
    data_dir: join(folder, 'data'),
    'log.access': false,
    'storage.min_free': 0,
    'ocr.enabled': false,
    'limits.api_calls_per_minute': 0,
  },
})
const log = openLog({ level: 'error', format: 'json' })
const app = await openApp(config, log, {
  migrate: 'always',
  creates: true,
  hasStatementTimeout: false,
})
const { db } = app
try {
  const started = performance.now()
  if (await isEmpty()) {
    const database = await openConfiguredDatabase(config, log, {})
    await database.asOwner((owner) => generate(owner.db))
    await database.close()
  }
  const { rows } = await sql<{ bytes: number }>`
    select pg_total_relation_size('documents') as bytes`.execute(db)
  console.log(
    `${rowCount} rows in ${Math.round((performance.now() - started) / 1000)} s, ${Math.round(rows[0]!.bytes / rowCount)} bytes each with indexes`,
  )
  await measure()
} finally {
  await app.close()
  if (!values.keep) await rm(folder, { recursive: true, force: true })
}

async function isEmpty(): Promise<boolean> {
  return (await db.selectFrom('users').select('id').limit(1).executeTakeFirst()) === undefined
}

/** Drops the indexes and foreign keys of the tables to fill. Returns the statements that create them again. */
async function dropIndexes(db: Db): Promise<string[]> {
  const { rows } = await sql<{ drop: string; create: string }>`
    select format('alter table %s drop constraint %I', conrelid::regclass, conname) as drop,
      format('alter table %s add constraint %I %s not valid', conrelid::regclass, conname, pg_get_constraintdef(oid)) as create
    from pg_constraint where contype = 'f' and conrelid = any(${filledTables}::regclass[])
    union all
    select format('drop index %s', indexrelid::regclass), replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')
    from pg_index where indrelid = any(${filledTables}::regclass[]) and not exists (select from pg_constraint where conindid = indexrelid)
    union all
    select format('alter table %I disable trigger user', name), format('alter table %I enable trigger user', name)
    from unnest(${filledTables}::text[]) name`.execute(db)
  for (const { drop } of rows) await sql.raw(drop).execute(db)
  return rows.map(({ create }) => create)
}

async function generate(db: Db): Promise<void> {
  await sql`select dms_add_job_weeks(now() - interval '30 days', now())`.execute(db)
  const statements = await dropIndexes(db)
  await sql`
    insert into users (username, username_key, email, email_key, role)
    select 'user' || n, 'user' || n, 'user' || n || '@example.org', 'user' || n || '@example.org', case n when 101 then 'admin' else 'user' end
    from generate_series(0, 101) n`.execute(db)
  await sql`
    insert into labels (name, name_key, color) select 'label' || n, 'label' || n, '#000000' from generate_series(0, 9) n`.execute(db)
  await sql`
    insert into sources (id, owner_id, name, type, url)
    select '00000000-0000-4000-8000-000000000001', id, 'source', 'webdav', 'https://example.org/' from users where username = 'user0'`.execute(
    db,
  )
  await sql`insert into stored_files (sha256, size, address) values (repeat('a', 64), 1, repeat('a', 64) || '.' || repeat('b', 32))`.execute(
    db,
  )
  for (let from = 0; from < rowCount; from += batchRows) {
    await sql`
      with owners as (select array_agg(id order by length(username), username) as ids from users where username like 'user%'),
        named as (select array_agg(id order by name) as ids from labels),
        added as (
          insert into documents (id, owner_id, title, filename, content, status, mime_type, size, sha256, language, ocr_confidence, page_count, created_at,
            updated_at, processed_at, document_date, date_checked, last_version, text_source, source_id, warnings)
          select dms_uuidv7(), owners.ids[case when n % 2 = 0 then 1 else 2 + n / 2 % 100 end], 'Title ' || md5(n::text), md5(n::text) || '.pdf', 'text',
            case when n % 100000 = 7 then 'failed' else 'completed' end, case when n % 100000 = 8 then 'image/webp' else 'application/pdf' end,
            1000 + n % 100000, repeat('a', 64), 'eng', (n % 100) / 100.0, 1 + n % 20, at, at, at,
            (at - n % 3000 * interval '1 day')::date, true, 1, case when n % 1000 = 9 then 'none' else 'text_layer' end,
            case when n % 100000 = 10 then '00000000-0000-4000-8000-000000000001'::uuid end,
            case when n % 100000 = 12 then '[{"code":"truncated"}]' else '[]' end::jsonb
          from generate_series(${from}::int, ${Math.min(rowCount, from + batchRows) - 1}::int) n
          cross join lateral (select timestamptz '2020-01-01' + n * interval '10 s' as at) moment cross join owners
          returning id, size)
      insert into document_labels (document_id, label_id)
      select id, named.ids[case when size % 100000 = 1006 then 10 else 1 + size % 9 end] from added cross join named`.execute(db)
  }
  await sql`
    insert into jobs (kind, queue, status, document_id, owner_id, payload, attempts, pages_done, pages_total, created_at, run_at, started_at, finished_at)
    select 'ocr', 'ocr', status, id, owner_id, '{"language": "eng"}', 1, page_count, page_count, at, at, at, at + page_count * interval '1 s'
    from documents cross join lateral (
      select now() - interval '30 days' * (1 - extract(epoch from created_at - timestamptz '2020-01-01') / ${rowCount * 10}) as at) moment`.execute(
    db,
  )
  await sql`
    insert into jobs (kind, queue, document_id, owner_id) select 'rendition', 'ocr', id, owner_id from documents where page_count = 20
    limit ${waitingCount}`.execute(db)
  for (const statement of statements) await sql.raw(statement).execute(db)
  await sql`vacuum analyze`.execute(db)
}

async function measure(): Promise<void> {
  const load = async (username: string): Promise<Actor> => {
    const { id, role } = await db.selectFrom('users').select(['id', 'role']).where('username', '=', username).executeTakeFirstOrThrow()
    return { id, role, username }
  }
  const actors = { 'half of all': await load('user0'), small: await load('user7'), admin: await load('user101') }
  const labels = Object.fromEntries((await db.selectFrom('labels').select(['id', 'name']).execute()).map(({ id, name }) => [name, id]))
  const { rows: sample } = await sql<{ id: string }>`
    select id from documents where owner_id = ${actors['half of all'].id} order by md5(id::text) limit ${rounds}`.execute(db)
  const paths: Record<string, string> = {
    'list, first page': '/api/documents?per_page=20',
    'list, page 500': '/api/documents?per_page=20&page=500',
    'list, one label of ten': `/api/documents?label_ids=${labels.label3}`,
    'list, rare label': `/api/documents?label_ids=${labels.label9}`,
    'list, status failed': '/api/documents?status=failed',
    'list, text_source none': '/api/documents?text_source=none',
    'list, one day of arrival': '/api/documents?date_from=2020-01-20T00:00:00Z&date_to=2020-01-20T23:59:59Z',
    'list, a month of document dates': '/api/documents?document_date_from=2019-03-01&document_date_to=2019-03-31',
    'list, low confidence': '/api/documents?min_confidence=0.98',
    'list, rare warning': '/api/documents?warning=truncated',
    'list, source': '/api/documents?source_id=00000000-0000-4000-8000-000000000001',
    'list, by title': '/api/documents?sort=title&order=asc',
    'list, by size': '/api/documents?sort=size',
    'list, by change': '/api/documents?sort=updated_at',
    'list, by document date': '/api/documents?sort=document_date',
    'list, with years': '/api/documents?facets=years&per_page=1',
    'OCR statistics': '/api/metrics/ocr',
  }
  const table = new Table({ head: ['ms, median / p95', ...Object.keys(actors)] })
  for (const [name, path] of Object.entries(paths)) {
    const cells: string[] = []
    for (const [who, actor] of Object.entries(actors)) cells.push(await time(`${name}, ${who}`, actor, () => path))
    table.push([name, ...cells])
  }
  table.push(['get', await time('get', actors['half of all'], (round) => `/api/documents/${sample[round % sample.length]!.id}`), '', ''])
  table.push(['list, deep cursor', await time('list, deep cursor', actors['half of all'], await walk(actors['half of all'])), '', ''])
  const leased: Job[] = []
  const lease = async () => {
    const job = await leases.leaseNext(db, 'ocr', 'bench/1', 600_000)
    if (job) leased.push(job)
  }
  table.push(['lease a job', await timeAll('lease a job', lease, leaseCount), '', ''])
  const complete = async (round: number) => {
    const job = leased[round]
    if (job) await db.transaction().execute((trx) => leases.completeJob(trx, { ...job, kind: 'ocr' }))
  }
  table.push(['complete a job', await timeAll('complete a job', complete, leaseCount), '', ''])
  console.log(table.toString())
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
}

/** Returns paths of pages in the middle of the list. */
async function walk(actor: Actor): Promise<() => string> {
  const send = localTransport(app, actor)
  const page = `/api/documents?per_page=100&page=${Math.floor(rowCount / 400)}`
  const { pagination } = (await (await send(new Request(`http://localhost${page}`))).json()) as { pagination: { next_cursor: string } }
  return () => `/api/documents?per_page=20&cursor=${encodeURIComponent(pagination.next_cursor)}`
}

function time(name: string, actor: Actor, path: (round: number) => string): Promise<string> {
  const send = localTransport(app, actor)
  return timeAll(name, async (round) => {
    const answer = await send(new Request(`http://localhost${path(round)}`))
    const body = await answer.text()
    if (answer.status !== 200) throw new Error(`${path(round)}: ${answer.status} ${body}`)
  })
}

/** Measures at least five rounds, and at most ten seconds. */
async function timeAll(name: string, run: (round: number) => Promise<unknown>, count = rounds): Promise<string> {
  const times: number[] = []
  const until = performance.now() + 10_000
  await run(0)
  for (let round = 1; round <= count && (round <= 5 || performance.now() < until); round++) {
    const start = performance.now()
    await run(round)
    times.push(performance.now() - start)
  }
  const [value, p95] = [median(times), quantile(times, 0.95)]
  report({ measure: `${rowCount} rows: ${name}`, unit: 'ms', value, p95, better: 'lower' })
  return `${value.toFixed(1)} / ${p95.toFixed(1)}`
}
