/** Whether it runs, and whether it can serve. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { z } from 'zod'
import type { App } from '../app.ts'
import { loadStates as migrations } from '../db/migrate.ts'
import { anyone, type Route } from '../http/route.ts'

const State = z.enum(['ok', 'fail'])
export const Ready = z.object({ status: z.enum(['ok', 'degraded', 'unavailable', 'draining']), checks: z.record(z.string(), State) })

/** A worker that has not been seen for this long is not there; by the database's clock. */
const workerSilenceTimeout = '30 seconds'
/** Milliseconds for each check: who asks wants to know now, and what hangs does not serve. */
const checkTimeoutMs = 3000

export const routes = (app: App, isDraining: () => boolean): Route[] => [
  anyone(
    'GET /healthz',
    { summary: 'Check that the process runs', produces: ['text/plain'] },
    () => new Response('ok\n', { headers: { 'content-type': 'text/plain' } }),
  ),
  anyone('GET /api/health', { summary: 'Check that the process runs', answer: z.object({ status: z.literal('ok') }) }, () => ({
    status: 'ok',
  })),
  anyone(
    'GET /readyz',
    { summary: 'Check readiness to serve requests', answer: Ready, otherAnswers: { 503: Ready } },
    async ({ event }) => {
      const answer = await readiness(app)
      if (isDraining()) answer.status = 'draining'
      event.res.status = ['ok', 'degraded'].includes(answer.status) ? 200 : 503
      return answer
    },
  ),
]

/** Database, schema and storage decide; search and worker only degrade. */
export async function readiness(app: App): Promise<z.infer<typeof Ready>> {
  const [database, schema, storage, search, worker] = await Promise.all([
    state(app.db.selectFrom('instance').select('key').limit(1).execute()),
    state(isMigrated(app)),
    state(app.files.check()),
    state(app.search.check()),
    state(hasWorker(app)),
  ])
  const checks = { database, schema, storage, search, worker }
  const isServing = [database, schema, storage].every((check) => check === 'ok')
  const isWhole = search === 'ok' && worker === 'ok'
  return { status: !isServing ? 'unavailable' : isWhole ? 'ok' : 'degraded', checks }
}

async function state(check: Promise<unknown>): Promise<'ok' | 'fail'> {
  const late = new AbortController()
  try {
    await Promise.race([check, sleep(checkTimeoutMs, undefined, { signal: late.signal }).then(() => Promise.reject(new Error('too late')))])
    return 'ok'
  } catch {
    return 'fail'
  } finally {
    late.abort()
  }
}

async function isMigrated({ db }: App): Promise<void> {
  const wrong = (await migrations(db)).filter(({ applied_at, unknown }) => unknown || applied_at === null)
  if (wrong.length > 0) throw new Error('the schema is not current')
}

async function hasWorker({ db }: App): Promise<void> {
  await db
    .selectFrom('workers')
    .select('name')
    .where('seen_at', '>', sql<Date>`now() - ${workerSilenceTimeout}::interval`)
    .limit(1)
    .executeTakeFirstOrThrow()
}
