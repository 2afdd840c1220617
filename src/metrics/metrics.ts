/** Metrics of the API: host usage and OCR statistics. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { isLiveServer } from '../db/clock.ts'
import type { Db } from '../db/pool.ts'
import { cpuUsage, diskUsage, memoryUsage } from './host.ts'

interface ConnectionCounts {
  servers: number
  http: number
  ws: number
  /** Seconds since the oldest live process started; 0 if none runs. */
  uptime: number
}

/** Counts live server processes and their connections. */
export async function countConnections(db: Db): Promise<ConnectionCounts> {
  const { rows } = await sql<ConnectionCounts>`
    select count(*) as servers, coalesce(sum(http_connections), 0) as http, coalesce(sum(ws_connections), 0) as ws,
      coalesce(floor(extract(epoch from now() - min(started_at))), 0)::int4 as uptime
    from servers where ${isLiveServer}`.execute(db)
  return rows[0] as ConnectionCounts
}

/**
 * Returns the usage of this host in percent and the connections of all server processes. The uptime is that of this process if it is a server,
 * else that of the oldest live server.
 */
export async function system(app: App, { isServer }: { isServer: boolean }) {
  const [cpu_usage, disk_usage, { http, ws, uptime }] = await Promise.all([cpuUsage(), diskUsage(app.config), countConnections(app.db)])
  const uptime_seconds = isServer ? Math.floor(process.uptime()) : uptime
  return { cpu_usage, memory_usage: memoryUsage(), disk_usage, active_connections: http + ws, uptime_seconds }
}

interface Day {
  /** YYYY-MM-DD in UTC. */
  date: string
  processed: number
  succeeded: number
  failed: number
  pages: number
  /** Seconds per document; null on a day without any. */
  average_processing_time: number | null
  /** 0 to 1; null without OCR results. */
  average_confidence: number | null
}

const days = 30
const dayMs = 86_400_000

/**
 * Returns OCR statistics of the documents that the actor can see: of all jobs that finished within `maintenance.jobs_keep`, and of each of the last
 * 30 days, oldest first. Durations are in seconds.
 */
export async function ocr(app: App, actor: Actor) {
  const [groups, recent] = await Promise.all([countByLanguage(app, actor), countByDay(app, actor)])
  const sum = (of: (group: Group) => number) => groups.reduce((total, group) => total + of(group), 0)
  const succeeded = sum((group) => group.succeeded)
  const total_processed = succeeded + sum((group) => group.failed)
  const languages_used: Record<string, number> = {}
  for (const group of groups)
    for (const code of group.succeeded > 0 && group.language ? group.language.split('+') : [])
      languages_used[code] = (languages_used[code] ?? 0) + group.succeeded
  return {
    total_processed,
    success_rate: total_processed > 0 ? rounded(succeeded / total_processed) : 0,
    average_processing_time: succeeded > 0 ? rounded(sum((group) => group.seconds) / succeeded) : 0,
    languages_used,
    daily_stats: recent,
  }
}

interface Group {
  /** detected codes, else requested codes; null: unknown */
  language: string | null
  succeeded: number
  failed: number
  /** Total duration of successful jobs. */
  seconds: number
}

/** Counts the jobs that finished within `maintenance.jobs_keep`. Older successes are deleted and older failures are not, so counting them would lower the success rate. */
async function countByLanguage(app: App, actor: Actor): Promise<Group[]> {
  const first = new Date(app.now().getTime() - app.config.maintenance.jobs_keep)
  const { rows } = await sql<Group>`
    select coalesce(nullif(array_to_string(d.detected_languages, '+'), ''), nullif(j.payload ->> 'language', 'auto')) as language,
      count(*) filter (where j.status = 'completed') as succeeded,
      count(*) filter (where j.status = 'failed') as failed,
      coalesce(sum(extract(epoch from j.finished_at - j.started_at)) filter (where j.status = 'completed'), 0)::float8 as seconds
    from jobs j left join live_documents d on d.id = j.document_id
    where j.kind = 'ocr' and j.status in ('completed', 'failed') and j.finished_at >= ${first} and ${isVisible(actor)}
    group by 1`.execute(app.db)
  return rows
}

async function countByDay(app: App, actor: Actor): Promise<Day[]> {
  const today = Math.floor(app.now().getTime() / dayMs) * dayMs
  const first = new Date(today - (days - 1) * dayMs)
  const { rows } = await sql<Day>`
    select to_char(j.finished_at at time zone 'UTC', 'YYYY-MM-DD') as date,
      count(*) as processed,
      count(*) filter (where j.status = 'completed') as succeeded,
      count(*) filter (where j.status = 'failed') as failed,
      coalesce(sum(coalesce(j.pages_total, d.page_count)) filter (where j.status = 'completed'), 0) as pages,
      (avg(extract(epoch from j.finished_at - j.started_at)) filter (where j.status = 'completed'))::float8 as average_processing_time,
      (avg(d.ocr_confidence) filter (where j.status = 'completed'))::float8 as average_confidence
    from jobs j join live_documents d on d.id = j.document_id
    where j.kind = 'ocr' and j.status in ('completed', 'failed') and j.finished_at >= ${first} and ${isVisible(actor)}
    group by 1`.execute(app.db)
  const dayByDate = new Map(rows.map((day) => [day.date, day]))
  return Array.from({ length: days }, (_, index) => {
    const date = new Date(first.getTime() + index * dayMs).toISOString().slice(0, 10)
    const day = dayByDate.get(date) ?? { ...emptyDay, date }
    const { average_processing_time: time, average_confidence: confidence } = day
    return { ...day, average_processing_time: time && rounded(time), average_confidence: confidence && rounded(confidence) }
  })
}

const emptyDay = { processed: 0, succeeded: 0, failed: 0, pages: 0, average_processing_time: null, average_confidence: null }

/** Matches jobs of documents that the actor can see. */
const isVisible = (actor: Actor) =>
  isAdmin(actor)
    ? sql<boolean>`true`
    : sql<boolean>`exists (select from live_documents o where o.id = j.document_id and o.owner_id = ${actor.id})`

const rounded = (value: number): number => Math.round(value * 10_000) / 10_000
