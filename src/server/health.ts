/** Liveness and readiness. */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { App } from '../app.ts'
import { shareRuns } from '../concurrency.ts'
import { loadStates } from '../db/migrate.ts'
import { anyone, type Route } from '../http/route.ts'
import { isLiveWorker } from '../jobs/leases.ts'

const State = z.enum(['ok', 'fail'])
export const Ready = z.object({ status: z.enum(['ok', 'degraded', 'unavailable', 'draining']), checks: z.record(z.string(), State) })

/** Maximum time of a check. A check that takes longer has failed. */
const checkTimeoutMs = 3000

export function routes(app: App, isDraining: () => boolean): Route[] {
  const loadReadiness = shareRuns(() => readiness(app))
  return [
    ...(['GET /healthz', 'GET /livez'] as const).map((spec) =>
      anyone(spec, { summary: 'Check that the process runs', produces: ['text/plain'] }, () => plainText('ok\n')),
    ),
    anyone('GET /api/health', { summary: 'Check that the process runs', answer: z.object({ status: z.literal('ok') }) }, () => ({
      status: 'ok',
    })),
    anyone(
      'GET /readyz',
      {
        summary: 'Check readiness to serve requests; `verbose` answers one line of text per check',
        query: z.object({ verbose: z.string().optional() }),
        answer: Ready,
        otherAnswers: { 503: Ready },
      },
      async ({ event, query: { verbose } }) => {
        const checked = await loadReadiness()
        const answer = isDraining() ? { ...checked, status: 'draining' as const } : checked
        event.res.status = ['ok', 'degraded'].includes(answer.status) ? 200 : 503
        if (verbose === undefined || verbose === 'false') return answer
        const lines = Object.entries(answer.checks).map(([name, state]) => `${state === 'ok' ? '[+]' : '[-]'}${name} ${state}\n`)
        return plainText(`${lines.join('')}${answer.status}\n`, event.res.status)
      },
    ),
  ]
}

const plainText = (text: string, status = 200): Response => new Response(text, { status, headers: { 'content-type': 'text/plain' } })

/**
 * Returns the result of all checks. Database, schema and a store on disk are required. Without search, a worker or a store in S3 the status is
 * degraded: another server would not reach S3 either.
 */
export async function readiness(app: App): Promise<z.infer<typeof Ready>> {
  const [database, schema, storage, search, worker] = await Promise.all([
    stateOf(app.db.selectFrom('instance').select('key').limit(1).execute()),
    stateOf(isMigrated(app)),
    stateOf(app.files.check()),
    stateOf(app.search.check()),
    stateOf(hasWorker(app)),
  ])
  const checks = { database, schema, storage, search, worker }
  const isServing = [database, schema, app.stores.primary === 's3' ? 'ok' : storage].every((check) => check === 'ok')
  const isComplete = [storage, search, worker].every((check) => check === 'ok')
  if (!isServing) return { status: 'unavailable', checks }
  return { status: isComplete ? 'ok' : 'degraded', checks }
}

async function stateOf(check: Promise<unknown>): Promise<'ok' | 'fail'> {
  const timer = new AbortController()
  const timeout = sleep(checkTimeoutMs, 'fail' as const, { signal: timer.signal })
  const result = check.then(
    () => 'ok' as const,
    () => 'fail' as const,
  )
  return Promise.race([result, timeout]).finally(() => timer.abort())
}

async function isMigrated({ db }: App): Promise<void> {
  const isCurrent = (await loadStates(db)).every(({ applied_at, unknown }) => !unknown && applied_at !== null)
  if (!isCurrent) throw new Error('the schema is not current')
}

/** Queues that need a worker: without one of them no document can be found. */
const requiredQueues = ['ocr', 'index']

async function hasWorker({ db }: App): Promise<void> {
  const workers = await db.selectFrom('workers').select('queues').where(isLiveWorker).execute()
  const missing = requiredQueues.filter((queue) => !workers.some(({ queues }) => queues.includes(queue)))
  if (missing.length > 0) throw new Error(`no worker runs ${missing.join(', ')}`)
}
