import { execFile } from 'node:child_process'
import { getPriority } from 'node:os'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const program = `
  import { getPriority } from 'node:os'
  import { lowerPriority } from ${JSON.stringify(new URL('../../src/extract/process/start-watchdog.ts', import.meta.url).href)}
  lowerPriority(10)
  console.log(getPriority())`

test.each([0, 15])('a process has at least the niceness 10, and keeps a higher one: +%i', async (added) => {
  const node = [process.execPath, '--input-type=module', '-e', program]
  const { stdout } = await promisify(execFile)('nice', ['-n', String(added), ...node])
  expect(Number(stdout)).toBe(Math.max(10, Math.min(19, getPriority() + added)))
})
