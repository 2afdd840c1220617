/**
 * Sends every route bodies and queries at their limits. They must be answered with 2xx or 4xx, and no other request may wait 100 ms, or longer on a
 * slower machine. `npm test` sends every eighth attempt, with another start for each route; `npm run test:hostile-size` sends all.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { Actor } from '../../src/actor.ts'
import { environment } from '../../src/config/environment.ts'
import type { Route } from '../../src/http/route.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { rowOf } from '../route-table/all.ts'
import { upload } from '../support/app.ts'
import { attempts } from '../support/data/hostile-sizes.ts'
import { slowness, waitedMs } from '../support/processes/run-queue.ts'
import { nameOf, type RouteRequest, requestOf, startWorld, usualOf } from '../support/route-table.ts'

vi.setConfig({ testTimeout: 900_000 })

const maxDelayMs = 100 * slowness()
const stride = environment().DMS_TEST_WHOLE === 'true' ? 1 : 8

/** Words of a text that are expensive to search for. */
const longText = (bytes: number): string => {
  const words = Array.from({ length: 5000 }, (_, index) => `${index % 7 === 0 ? 'lorem' : `w${(index * 7919) % 1000}`} a e ab`)
  return words
    .join(' ')
    .repeat(Math.ceil(bytes / 40_000))
    .slice(0, bytes)
}

async function startHostileWorld() {
  const world = await startWorld({
    'limits.max_request_size': '100MB',
    'limits.shared_links_per_hour': 100_000,
    'limits.max_upload_size': '10MB',
  })
  for (const size of [1_000_000, 900_000, 30_000]) await upload(world.clientOf(world.ada), `long-${size}.txt`, longText(size))
  await world.runJobs(['ocr', 'index'])
  const server = buildServer(world.app)
  let requests = 0
  const ask = async (route: Route, one: RouteRequest, actor: Actor | null) => {
    const request = requestOf(route, one)
    const context = { ip: `198.18.${(++requests >> 8) & 255}.${requests & 255}`, ...(actor ? { actor } : {}) }
    // The first turn of the timer excludes earlier work of this test from the measurement.
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    await sleep(3)
    delay.reset()
    const waited = waitedMs()
    const cpu = process.threadCpuUsage()
    const response = await server.request(request, undefined, context)
    await sleep(2)
    delay.disable()
    const { user, system } = process.threadCpuUsage(cpu)
    await response.body?.cancel()
    return { status: response.status, delayMs: delay.max / 1e6 - (waitedMs() - waited), cpuMs: (user + system) / 1000 }
  }
  return { world, ask }
}

type Hostile = Awaited<ReturnType<typeof startHostileWorld>>

/** Sends all attempts. Adds those that were answered with 5xx, or blocked the event loop, to `found`. Returns their number. */
async function sendAttempts({ ask }: Hostile, route: Route, requests: Asked, first: number, found: string[]): Promise<number> {
  const { good, actor, maxBodyBytes, isRefused } = requests
  const selected = [...attempts(route, good, maxBodyBytes, isRefused)].filter((_, index) => (index + first) % stride === 0)
  for (const { name, ask: build } of selected) {
    const one = build()
    let answer = await ask(route, one, actor)
    if (answer.delayMs >= maxDelayMs) {
      // Another process may have used the core: repeats slow requests.
      await sleep(200)
      answer = await ask(route, one, actor)
    }
    const { status, delayMs, cpuMs } = answer
    if (status >= 500 || delayMs >= maxDelayMs)
      found.push(
        `${nameOf(route)} ${actor ? 'signed in' : 'anonymous'}, ${name}: ${status}, ${Math.round(delayMs)} ms (${Math.round(cpuMs)} ms of CPU in all)`,
      )
  }
  return selected.length
}

interface Asked {
  good: RouteRequest
  actor: Actor | null
  maxBodyBytes: number
  /** before its body is read */
  isRefused: boolean
}

test('bodies, queries and expressions at their limits: no 5xx, and the event loop is never blocked for 100 ms', async () => {
  const hostile = await startHostileWorld()
  const { world } = hostile
  const found: string[] = []
  const forms = new Set<unknown>()
  let count = 0
  for (const [first, route] of world.routes.entries()) {
    const { shape, access } = route
    if (!shape.body && !shape.query && !shape.form) continue
    // An upload is the same under each of its paths.
    if (shape.form && forms.has(shape.form.fields)) continue
    if (shape.form) forms.add(shape.form.fields)
    const { who, actor } = usualOf(route, world)
    const good = await rowOf(route).good(world, who)
    const signedIn = good.as ?? actor ?? world.ada.actor
    const maxBodyBytes = shape.maxBodyBytes ?? 1_000_000
    count += await sendAttempts(hostile, route, { good, actor: signedIn, maxBodyBytes, isRefused: false }, first, found)
    count += await sendAttempts(hostile, route, { good, actor: null, maxBodyBytes: 64_000, isRefused: access !== 'anyone' }, first, found)
  }
  expect(found).toEqual([])
  expect(count).toBeGreaterThan(3000 / stride)
})
