import fs from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openLog } from '../../src/log/log.ts'

async function logFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-log-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'logs/dms.log')
}

const textsIn = async (file: string): Promise<string[]> =>
  (await readFile(file, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { msg: string }).msg)

test.each(['json', 'pretty'] as const)('a full disk ends nothing, and lines are written again when it has room (%s)', async (format) => {
  const file = await logFile()
  await mkdir(join(file, '..'))
  const log = openLog({ level: 'info', format, file })
  log.info('before')
  const full = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  })
  for (let line = 0; line < 3000; line++) log.info('x'.repeat(1000))
  await new Promise(setImmediate)
  full.mockRestore()
  for (const text of ['dropped', 'after']) log.info(text)
  await new Promise(setImmediate)
  const text = await readFile(file, 'utf8')
  for (const word of ['before', 'after']) expect([word, text.includes(word)]).toEqual([word, true])
  expect(text.length).toBeLessThan(2 << 20)
})

test('reopen() keeps the old file if the new one cannot be opened, and works again later', async () => {
  const file = await logFile()
  const folder = join(file, '..')
  await mkdir(folder)
  const log = openLog({ level: 'info', format: 'json', file })
  const moved = `${folder}.1`
  await fs.promises.rename(folder, moved)
  log.reopen()
  log.info('in the old file')
  expect(await textsIn(join(moved, 'dms.log'))).toEqual(['cannot reopen the log file; the old one stays in use', 'in the old file'])
  await mkdir(folder)
  log.reopen()
  log.info('in the new file')
  expect(await textsIn(file)).toEqual(['in the new file'])
})
