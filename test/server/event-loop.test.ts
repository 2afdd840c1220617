/** The log names requests that block the event loop. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { anyone, type Route } from '../../src/http/route.ts'
import type { Log } from '../../src/log/log.ts'
import { watchEventLoop } from '../../src/server/event-loop.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'

type Line = { delay_ms: number; routes: string[]; requests: { route: string; request_id: string }[]; unlogged: number }

const block = (ms: number): void => {
  for (const end = performance.now() + ms; performance.now() < end; );
}
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function startWatched(logIntervalMs: number) {
  const { app } = await startApp()
  const lines: Line[] = []
  const log = { ...app.log, warn: (line: Line) => lines.push(line) } as unknown as Log
  const watch = watchEventLoop(log, { warnMs: 200, logIntervalMs })
  const route = (path: `GET /${string}`, ms: number): Route =>
    anyone(path, { summary: 'for this test', answer: z.object({}) }, async () => {
      await sleep(100)
      block(ms)
      return {}
    })
  const server = buildServer(app, { routes: [route('GET /api/quick', 0), route('GET /api/slow/:id', 600)], eventLoop: watch })
  const ask = async (path: string) => (await server.request(path, undefined, { isLocal: true })).headers.get('x-request-id')
  return { watch, lines, ask }
}

test('a request that blocks the event loop is logged with its route, its id and the delay', async () => {
  const { watch, lines, ask } = await startWatched(0)
  await ask('/api/quick')
  await sleep(200)
  lines.length = 0
  const id = await ask('/api/slow/7')
  await sleep(300)
  const line = lines.find(({ routes }) => routes.includes('GET /api/slow/:id'))
  expect(line).toMatchObject({ routes: ['GET /api/slow/:id'], requests: [{ route: 'GET /api/slow/:id', request_id: id }] })
  expect(line?.delay_ms).toBeGreaterThan(400)
  const [delays, blocked] = watch.families()
  expect(delays?.samples.find(({ labels }) => labels?.le === '+Inf')?.value).toBeGreaterThan(1)
  expect(blocked?.samples.find(({ labels }) => labels?.route === 'GET /api/slow/:id')?.value).toBeGreaterThanOrEqual(1)
  watch.close()
})

test('one line is logged for many blocked turns, and the next one has the number of omitted ones', async () => {
  const { watch, lines, ask } = await startWatched(60_000)
  for (let time = 0; time < 3; time++) await ask('/api/slow/7').then(() => sleep(100))
  expect(lines.length).toBe(1)
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + 60_000)
  onTestFinished(() => void vi.restoreAllMocks())
  await expect.poll(() => lines.length).toBe(2)
  expect(lines[1]?.unlogged).toBeGreaterThanOrEqual(2)
  watch.close()
})
