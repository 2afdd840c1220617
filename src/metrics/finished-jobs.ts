/** Counters and histograms of finished extraction jobs. They cover all workers, and begin when this process starts. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import { kinds } from '../jobs/queue.ts'
import { type Family, family, type Histogram, openHistogram } from './exposition.ts'

const durationBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const confidenceBounds = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1]
/** Kinds of jobs that stay in the table after they have finished. */
const finishedKinds = Object.entries(kinds).flatMap(([kind, { keepsFinished }]) => (keepsFinished ? [kind] : []))
/** Time after which the transactions of all finished jobs have committed. */
const commitSeconds = 5

interface Group {
  count: number
  sum: number
  max: number
}

/** Returns a function that reads the jobs finished since its last call, and returns the totals since this one. */
export function openFinishedJobs(app: App): () => Promise<Family[]> {
  const openedMs = app.monotonicMs()
  const durations = new Map<string, { labels: { queue: string; result: string }; histogram: Histogram }>()
  const confidences = openHistogram(confidenceBounds)
  let pages = 0
  let from: Date | null = null
  const update = async (): Promise<void> => {
    const openSeconds = (app.monotonicMs() - openedMs) / 1000
    const { rows: clocks } = await sql<{ start: Date; end: Date }>`
      select now() - ${openSeconds} * interval '1 s' as start, now() - ${commitSeconds} * interval '1 s' as end`.execute(app.db)
    const { start, end } = clocks[0]!
    const finished = sql`jobs where kind = any(${finishedKinds}) and status in ('completed', 'failed')
      and finished_at > ${from ?? start} and finished_at <= ${end}`
    const { rows } = await sql<Group & { queue: string; result: string; pages: number }>`
      select queue, status as result, coalesce(sum(pages_done), 0)::int as pages, ${aggregate(sql`extract(epoch from finished_at - started_at)`)}
      from ${finished} group by 1, 2, ${bucket(sql`extract(epoch from finished_at - started_at)`, durationBounds)}`.execute(app.db)
    const { rows: read } = await sql<Group>`
      select ${aggregate(sql`ocr_confidence`)} from live_documents
      where ocr_confidence is not null and id in (select document_id from ${finished} and status = 'completed')
      group by ${bucket(sql`ocr_confidence`, confidenceBounds)}`.execute(app.db)
    for (const { queue, result, ...group } of rows) {
      const key = `${queue} ${result}`
      const { histogram } =
        durations.get(key) ?? durations.set(key, { labels: { queue, result }, histogram: openHistogram(durationBounds) }).get(key)!
      histogram.observe(group.max, group.count, group.sum)
      pages += group.pages
    }
    for (const { max, count, sum } of read) confidences.observe(max, count, sum)
    from = end
  }
  let updated = Promise.resolve()
  return async () => {
    updated = updated.catch(() => {}).then(update)
    await updated
    const samples = [...durations.values()].flatMap(({ labels, histogram }) => histogram.samples(labels))
    return [
      family('dms_job_duration_seconds', 'histogram', 'Duration of finished extraction jobs.', samples),
      family('dms_ocr_pages_total', 'counter', 'Pages of finished extraction jobs.', [{ value: pages }]),
      family('dms_ocr_confidence', 'histogram', 'OCR confidence of documents when their job finished.', confidences.samples()),
    ]
  }
}

const aggregate = (value: RawBuilder<unknown>) =>
  sql`count(*)::int as count, coalesce(sum(${value}), 0)::float8 as sum, coalesce(max(${value}), 0)::float8 as max`

/** Returns the number of bounds below a value. */
const bucket = (value: RawBuilder<unknown>, bounds: readonly number[]) =>
  sql`(select count(*) from unnest(array[${sql.join(bounds.map((bound) => sql.lit(bound)))}]::real[]) bound where bound < (${value})::real)`
