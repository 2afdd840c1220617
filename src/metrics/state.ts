/** Prometheus metrics of the whole installation, read from the database. Every server process exports the same values. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { shareRuns } from '../concurrency.ts'
import { loadStoredBytes } from '../documents/versions/stored-bytes.ts'
import { isLiveWorker } from '../jobs/leases.ts'
import { isOcrPaused, kinds } from '../jobs/queue.ts'
import { isUnresolved } from '../ocr/ocr.ts'
import { type Family, family, gauge, type Sample } from './exposition.ts'
import { openFinishedJobs } from './finished-jobs.ts'
import { diskFree } from './host.ts'
import { countConnections } from './metrics.ts'

/** Lifetime of cached totals over whole tables. */
const cacheMs = 60_000
/** Lifetime of the cached sums of stored bytes by use: they take a second per million versions. */
const bytesCacheMs = 600_000

/** Returns a function that reads the metrics. Without the database it returns `dms_database_up 0` only. */
export function openDatabaseMetrics(app: App): () => Promise<Family[]> {
  const finishedJobs = openFinishedJobs(app)
  const totals = shareRuns(() => tableTotals(app), cacheMs, app.monotonicMs)
  const bytes = shareRuns(() => versionTotals(app), bytesCacheMs, app.monotonicMs)
  return async () => {
    try {
      const families = await Promise.all([
        queue(app),
        connections(app),
        sources(app),
        runs(app),
        finishedJobs(),
        totals(),
        bytes().catch(() => []),
      ])
      return [gauge('dms_database_up', 'Whether the database answers.', 1), ...families.flat()]
    } catch (error) {
      app.log.warn({ err: (error as Error).message }, 'cannot read metrics from the database')
      return [gauge('dms_database_up', 'Whether the database answers.', 0)]
    }
  }
}

async function queue({ db }: App): Promise<Family[]> {
  const live = await sql<{ queue: string; state: string; jobs: number; age: number }>`
    select queue, status as state, count(*) as jobs,
      coalesce(extract(epoch from now() - min(run_at) filter (where status = 'pending' and run_at <= now())), 0)::float8 as age
    from jobs where status in ('pending', 'processing') group by 1, 2`.execute(db)
  const lastHour = await sql<{ queue: string; result: string; jobs: number; pages: number; median: number; slow: number }>`
    select queue, status as result, count(*) as jobs, coalesce(sum(pages_done), 0) as pages,
      percentile_cont(0.5) within group (order by extract(epoch from finished_at - started_at))::float8 as median,
      percentile_cont(0.95) within group (order by extract(epoch from finished_at - started_at))::float8 as slow
    from jobs where kind in ('ocr', 'extract') and status in ('completed', 'failed') and finished_at > now() - interval '1 hour'
    group by 1, 2`.execute(db)
  const finished = lastHour.rows.map(({ queue, result, ...row }) => ({ ...row, labels: { queue, result } }))
  const queues = new Set([...Object.values(kinds).map((kind): string => kind.queue), ...live.rows.map(({ queue }) => queue)])
  const rowOf = (queue: string, state: string) => live.rows.find((row) => row.queue === queue && row.state === state)
  const ages = [...queues].map((queue) => ({ labels: { queue }, value: rowOf(queue, 'pending')?.age ?? 0 }))
  const counts = [...queues].flatMap((queue) =>
    ['pending', 'processing'].map((state) => ({ labels: { queue, state }, value: rowOf(queue, state)?.jobs ?? 0 })),
  )
  const finishedCounts = finished.map(({ labels, jobs }) => ({ labels, value: jobs }))
  const durations = finished.flatMap(({ labels, median, slow }) => [
    { labels: { ...labels, quantile: 0.5 }, value: median },
    { labels: { ...labels, quantile: 0.95 }, value: slow },
  ])
  const pages = finished.reduce((sum, { pages }) => sum + pages, 0)
  return [
    family('dms_jobs', 'gauge', 'Pending and running jobs.', counts),
    family('dms_oldest_pending_job_age_seconds', 'gauge', 'Age of the oldest job that is ready to run.', ages),
    family('dms_jobs_finished_last_hour', 'gauge', 'Extraction jobs finished in the last hour.', finishedCounts),
    family('dms_job_duration_last_hour_seconds', 'gauge', 'Duration of extraction jobs finished in the last hour.', durations),
    gauge('dms_ocr_paused', '1 while OCR is paused.', (await isOcrPaused(db)) ? 1 : 0),
    gauge('dms_ocr_pages_last_hour', 'Pages of extraction jobs finished in the last hour.', pages),
  ]
}

/** Times of the last successful periodic runs such as backups, for alerts on missing ones. */
async function runs({ db }: App): Promise<Family[]> {
  const { rows } = await sql<{ name: string; at: number }>`
    select name, extract(epoch from last_success_at)::float8 as at from runs order by name`.execute(db)
  return rows.map(({ name, at }) =>
    gauge(`dms_${name}_last_success_timestamp_seconds`, `Time of the last successful ${name.replace('_', ' ')} since the Unix epoch.`, at),
  )
}

async function connections({ db }: App): Promise<Family[]> {
  const { servers, http, ws } = await countConnections(db)
  const { rows } = await sql<{ state: string; connections: number }>`
    select coalesce(state, 'unknown') as state, count(*) as connections from pg_stat_activity
    where datname = current_database() and application_name like 'dms%' group by 1`.execute(db)
  const { rows: workers } = await sql<{ alive: number }>`
    select count(*) as alive from workers where ${isLiveWorker}`.execute(db)
  const databaseConnections = rows.map(({ state, connections }) => ({ labels: { state }, value: connections }))
  return [
    gauge('dms_servers', 'Live server processes.', servers),
    gauge('dms_workers', 'Live workers.', workers[0]?.alive ?? 0),
    gauge('dms_http_connections', 'Open HTTP connections of all servers.', http),
    gauge('dms_ws_connections', 'Open WebSockets of all servers.', ws),
    family('dms_db_pool_connections', 'gauge', 'Database connections of dms by state in pg_stat_activity.', databaseConnections),
  ]
}

interface SourceState {
  id: string
  status: string
  totals: Record<string, number>
  last_sync: number | null
  /** Seconds that a sync is overdue. */
  lag: number
  /** Duration of the last successful sync, in seconds. */
  duration: number | null
}

async function sources({ db }: App): Promise<Family[]> {
  const { rows } = await sql<SourceState>`
    select id, status, totals, extract(epoch from last_sync)::float8 as last_sync,
      case when status = 'disabled' then 0 else greatest(0, coalesce(extract(epoch from now() - next_sync), 0)) end::float8 as lag,
      (select extract(epoch from finished_at - started_at)::float8 from source_syncs
        where source_id = sources.id and state = 'completed' order by started_at desc limit 1) as duration
    from sources order by id`.execute(db)
  const perSource = (name: string, help: string, select: (row: SourceState) => number | null): Family => {
    const values = rows.map((row) => ({ id: row.id, value: select(row) }))
    const samples = values.flatMap(({ id, value }) => (value === null ? [] : [{ labels: { source: id }, value }]))
    return family(name, 'gauge', help, samples)
  }
  const files = rows.flatMap(({ id, totals }) =>
    Object.entries(totals).map(([result, value]) => ({ labels: { source: id, result }, value })),
  )
  return [
    perSource(
      'dms_source_last_success_timestamp_seconds',
      'Time of the last sync of a source since the Unix epoch.',
      (row) => row.last_sync,
    ),
    perSource('dms_source_sync_lag_seconds', 'Seconds that a sync is overdue.', (row) => row.lag),
    perSource('dms_source_sync_duration_seconds', 'Duration of the last successful sync of a source.', (row) => row.duration),
    family('dms_source_files_total', 'counter', 'Files of a source by result, over all syncs.', files),
    perSource('dms_source_failing', '1 where the last sync of a source failed.', ({ status }) => (status === 'error' ? 1 : 0)),
  ]
}

async function tableTotals(app: App): Promise<Family[]> {
  const { db } = app
  const documents = await sql<{ status: string; text_source: string | null; documents: number }>`
    select status, text_source, count(*) as documents from live_documents group by 1, 2`.execute(db)
  const warnings = await sql<{ code: string; documents: number }>`
    select warning ->> 'code' as code, count(distinct id) as documents
    from live_documents, jsonb_array_elements(warnings) warning where warnings <> '[]' group by 1 order by 1`.execute(db)
  const stored = await sql<{ bytes: number }>`select coalesce(sum(size), 0)::float8 as bytes from stored_files`.execute(db)
  const failed = await sql<{ code: string; jobs: number }>`
    select coalesce(jobs.error_code, 'UNKNOWN') as code, count(*) as jobs
    from jobs join live_documents documents on documents.id = jobs.document_id
    where kind in ('ocr', 'extract') and jobs.status = 'failed' and ${isUnresolved} group by 1 order by 1`.execute(db)
  // Document store and search index may be unavailable on their own.
  const free = await diskFree(app.config).catch(() => null)
  const indexed = await app.search.status().catch(() => null)
  const countBy = (column: 'status' | 'text_source', values: readonly string[]): Sample[] =>
    values.map((value) => {
      const counts = documents.rows.flatMap((row) => (row[column] === value ? [row.documents] : []))
      return { labels: { [column]: value }, value: counts.reduce((sum, count) => sum + count, 0) }
    })
  const statuses = countBy('status', ['pending', 'processing', 'completed', 'failed'])
  const textSources = countBy('text_source', ['text_layer', 'ocr', 'mixed', 'empty', 'none'])
  const warned = warnings.rows.map(({ code, documents }) => ({ labels: { code }, value: documents }))
  const failedJobs = failed.rows.map(({ code, jobs }) => ({ labels: { code }, value: jobs }))
  const index = indexed && [
    gauge('dms_search_index_documents', 'Documents in the search index.', indexed.documents),
    gauge(
      'dms_search_drift_documents',
      'Missing documents of the search index plus entries without a document.',
      indexed.missing + indexed.extra,
    ),
  ]
  return [
    family('dms_documents', 'gauge', 'Documents.', statuses),
    family('dms_documents_by_text_source', 'gauge', 'Documents by the source of their text; none: dms cannot read the type.', textSources),
    family('dms_documents_with_warnings', 'gauge', 'Documents with a warning by its code.', warned),
    gauge('dms_storage_bytes', 'Total size of stored files without duplicates.', stored.rows[0]?.bytes ?? 0),
    ...(free === null ? [] : [gauge('dms_storage_free_bytes', 'Free bytes on the disk of the document store.', free)]),
    family('dms_jobs_failed', 'gauge', 'Documents that could not be read, and have not been read since, by error code.', failedJobs),
    ...(index ?? []),
  ]
}

async function versionTotals({ db }: App): Promise<Family[]> {
  const { total, oldVersions, trash, renditions, versionCount, oldVersionCount, trashedCount } = await loadStoredBytes(db)
  const bytes = { current: total - oldVersions - trash - renditions, old_versions: oldVersions, trash, renditions }
  const counts = { current: versionCount - oldVersionCount, old: oldVersionCount }
  return [
    gauge('dms_trash_documents', 'Documents in the trash.', trashedCount),
    family('dms_document_versions', 'gauge', 'Versions of documents that are not in the trash.', samplesOf('state', counts)),
    family('dms_storage_use_bytes', 'gauge', 'Size of stored files by the only use they have.', samplesOf('use', bytes)),
  ]
}

const samplesOf = (label: string, values: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))
