/** Partitions of jobs and events: they are added and removed while others read and write. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import { truncateExpiredEvents } from '../../src/events.ts'
import { addJobWeeks, dropJobWeeks } from '../../src/jobs/weeks.ts'
import { maintain } from '../../src/worker/maintenance.ts'
import { startApp, upload } from '../support/app.ts'

const dayMs = 86_400_000

async function listWeeks({ db }: App): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select inhrelid::regclass::text as name from pg_inherits where inhparent = 'jobs_completed'::regclass order by 1`.execute(db)
  return rows.map(({ name }) => name)
}

/** Returns the partition of each job by its status. */
async function partitionsOf({ db }: App): Promise<Record<string, string>> {
  const { rows } = await sql<{ status: string; name: string }>`select status, tableoid::regclass::text as name from jobs`.execute(db)
  return Object.fromEntries(rows.map(({ status, name }) => [status, name]))
}

test('this week and the next four are added once, by many callers at once, while a transaction adds and completes jobs', async () => {
  const { app } = await startApp()
  const weeks = await listWeeks(app)
  expect(weeks.filter((name) => name !== 'jobs_completed_other')).toHaveLength(5)
  for (const name of weeks.slice(0, 3)) await sql`drop table ${sql.table(name)}`.execute(app.db)
  await app.db.transaction().execute(async (trx) => {
    await sql`insert into jobs (kind, queue, status, finished_at) values ('ocr', 'ocr', 'pending', null), ('ocr', 'ocr', 'completed', '2000-01-01')`.execute(
      trx,
    )
    // The transaction holds the partition that takes jobs without a week: adding one waits for a short time only.
    await addJobWeeks(app.db)
    await sql`insert into jobs (kind, queue, status, finished_at) values ('ocr', 'ocr', 'failed', now())`.execute(trx)
  })
  await Promise.all(Array.from({ length: 6 }, () => addJobWeeks(app.db)))
  expect(await listWeeks(app)).toEqual(weeks)
  expect(await partitionsOf(app)).toEqual({ pending: 'jobs_live', completed: 'jobs_completed_other', failed: 'jobs_failed' })
})

test('a completed job moves to its week, and is deleted with its document', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'a')
  await runJobs()
  expect((await partitionsOf(app)).completed).toMatch(/^jobs_completed_\d{4}w\d\d$/)
  await sql`delete from documents where id = ${id}`.execute(app.db)
  expect(await app.db.selectFrom('jobs').select('id').where('document_id', '=', id).execute()).toEqual([])
})

test('maintenance drops ended weeks whole, without those of others; a week that is being read waits for the next run', async () => {
  const { app } = await startApp()
  await sql`select dms_add_job_weeks('2020-01-06', '2020-01-13')`.execute(app.db)
  await sql`
    insert into jobs (kind, queue, status, finished_at)
    select 'ocr', 'ocr', 'completed', timestamptz '2020-01-06 00:00Z' + n * interval '1 day' from generate_series(0, 13) n
    union all select 'ocr', 'ocr', 'completed', now()`.execute(app.db)
  const age = Date.now() - Date.parse('2020-01-13T00:00:01Z')
  expect(await dropJobWeeks(app.db, age, { isDryRun: true })).toBe(7)
  await app.db.transaction().execute(async (trx) => {
    await sql`select from jobs_completed_2020w02`.execute(trx)
    expect(await dropJobWeeks(app.db, age)).toBe(0)
  })
  expect(await dropJobWeeks(app.db, age + 2 * dayMs)).toBe(0)
  expect(await dropJobWeeks(app.db, age)).toBe(7)
  expect(await listWeeks(app)).not.toContain('jobs_completed_2020w02')
  expect(await maintain(app, ['jobs'], { isDryRun: true })).toEqual({ jobs: 7 })
  expect(await maintain(app, ['jobs'])).toEqual({ jobs: 7 })
  expect(await app.db.selectFrom('jobs').select('id').execute()).toHaveLength(1)
})

test('expired events are truncated by partition; one that is being read waits for the next run', async () => {
  const { app } = await startApp()
  await sql`insert into events (type, data, at, slot) values ('a', '{}', now() - interval '25 minutes', 0),
    ('b', '{}', now() - interval '25 minutes', 1), ('c', '{}', now() - interval '15 minutes', 2), ('d', '{}', now(), 2)`.execute(app.db)
  const left = async () => (await app.db.selectFrom('events').select('type').orderBy('type').execute()).map(({ type }) => type)
  await app.db.transaction().execute(async (trx) => {
    await sql`select from events_1`.execute(trx)
    await truncateExpiredEvents(app.db)
    expect(await left()).toEqual(['b', 'c', 'd'])
  })
  await truncateExpiredEvents(app.db)
  expect(await left()).toEqual(['c', 'd'])
})

test('events of a clock that was ahead expire ten minutes after it was set back', async () => {
  const { app } = await startApp()
  await sql`insert into events (type, data, at) values ('a', '{}', now() + interval '2 days')`.execute(app.db)
  await truncateExpiredEvents(app.db)
  await sql`update events set at = at - interval '11 minutes'`.execute(app.db)
  await truncateExpiredEvents(app.db)
  expect(await app.db.selectFrom('events').select('type').execute()).toEqual([])
})
