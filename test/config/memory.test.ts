/** Returns the memory that the settings use. */
import { expect, test } from 'vitest'
import { inspectConfig } from '../../src/config/load.ts'
import { findMemoryShortage, maxSharedBuffers } from '../../src/config/memory.ts'
import { run } from '../support/processes/run.ts'

const gibibyte = 1 << 30
const configOf = (env: Record<string, string> = {}) => inspectConfig({ env, home: '/nonexistent', etc: '/nonexistent' }).config

test.each([
  [0.1, 0.03125],
  [1, 0.25],
  [4, 1],
  [16, 5.6],
  [64, 8],
])('of %d GiB of memory, shared_buffers takes %d GiB at most', (memory, buffers) => {
  expect(maxSharedBuffers(memory * gibibyte) / gibibyte).toBeCloseTo(buffers, 2)
})

test('the defaults fit 8 GiB and 2 cores, and exceed 2 GiB', () => {
  expect(findMemoryShortage(configOf(), 8 * gibibyte, 2)).toBe(null)
  expect(findMemoryShortage(configOf(), 2 * gibibyte, 2)).toEqual({
    message: '2.1 GB of memory, but 2 readers may take 1500MB each, the embedded PostgreSQL up to 0.5 GB',
    fix: 'lower ocr.memory_limit, and worker.concurrency = 1',
  })
})

test('the fix fits', () => {
  const shortage = findMemoryShortage(configOf({ DMS_WORKER_CONCURRENCY: '16' }), 8 * gibibyte, 2)
  const concurrency = /worker\.concurrency = (\d+)/.exec(shortage?.fix ?? '')?.[1] ?? ''
  expect(findMemoryShortage(configOf({ DMS_WORKER_CONCURRENCY: concurrency }), 8 * gibibyte, 2)).toBe(null)
})

test('an external database takes no memory of this machine', () => {
  const env = { DATABASE_URL: 'postgres://db.example.org/dms', DMS_WORKER_CONCURRENCY: '1' }
  expect(findMemoryShortage(configOf(env), 2.2 * gibibyte, 2)).toBe(null)
})

test('config check and doctor warn', async () => {
  const env = { DMS_OCR_MEMORY_LIMIT: '4TB', DMS_DATA_DIR: '/nonexistent' }
  const message = expect.stringMatching(/readers may take 4TB each/)
  const check = await run(['config', 'check', '--json'], { env })
  expect([check.code, JSON.parse(check.stdout)]).toEqual([0, [{ severity: 'warning', message }]])
  const doctor = await run(['doctor', '--only', 'memory', '--json'], { env })
  expect(doctor.code).toBe(0)
  expect(JSON.parse(doctor.stdout).checks).toEqual([expect.objectContaining({ id: 'memory', status: 'warn', message })])
})
