/** Size of the shared buffers of the embedded PostgreSQL. */
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadMemorySize, maxSharedBuffers } from '../../src/config/memory.ts'
import { sizeSharedBuffers } from '../../src/db/embedded/buffers.ts'

const folder = mkdtempSync(join(tmpdir(), 'dms-buffers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const mostMegabytes = maxSharedBuffers(loadMemorySize()) / (1 << 20)

test('an empty cluster gets at most 1 GiB of shared_buffers; a large one twice its size, within the memory limit', async () => {
  const initial = await sizeSharedBuffers(folder)
  expect(initial).toBeGreaterThanOrEqual(32)
  expect(initial).toBeLessThanOrEqual(Math.min(1024, mostMegabytes))
  mkdirSync(join(folder, 'base', '5'), { recursive: true })
  for (const name of ['16384', '16384.1']) {
    writeFileSync(join(folder, 'base', '5', name), '')
    truncateSync(join(folder, 'base', '5', name), 1 << 30)
  }
  expect(await sizeSharedBuffers(folder)).toBe(Math.min(4096, mostMegabytes))
})
