/** Time limits of reader processes, which wait for processors that others use, and the warning about passes that were left out. */
import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openReader } from '../../src/extract/process/reader-pool.ts'
import { openLog } from '../../src/log/log.ts'
import { findOcr } from '../../src/ocr/languages.ts'
import type { DocumentReader, ReadPage } from '../../src/ports/document-reader.ts'
import type { InstalledOcr } from '../../src/ports/ocr-engine.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { image, scan } from '../support/data/files.ts'
import { endlessPdf } from '../support/data/pdf-file.ts'
import { fakeReader } from '../support/fake-reader.ts'
import { childrenOf, until } from '../support/processes/processes.ts'

const folder = mkdtempSync(join(tmpdir(), 'dms-limits-'))
const cleanUps: (() => unknown)[] = []
let ocr: InstalledOcr

beforeAll(async () => {
  ocr = await findOcr({ engine: 'tesseract-js', dataPath: '' })
})

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

afterAll(() => rmSync(folder, { recursive: true }))

function file(name: string, bytes: Uint8Array | string) {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return { path, filename: basename(path), mimeType: 'application/octet-stream' }
}

interface Limits {
  readonly outlineTimeoutMs?: number
  readonly pageTimeoutMs?: number
}

function openLimitedReader({ outlineTimeoutMs = 60_000, pageTimeoutMs = 60_000 }: Limits, setup = ocr): DocumentReader {
  const timeouts = { outlineTimeoutMs, pageTimeoutMs, thumbnailTimeoutMs: 60_000 }
  const limits = { ...timeouts, memoryBytes: 1e9, maxPages: 10, maxPixels: 2e7, dpi: 150 }
  const reader = openReader({
    slots: 1,
    tempDir: join(folder, 'tmp'),
    log: openLog({ level: 'silent', format: 'json' }),
    ocr: setup,
    limits,
  })
  cleanUps.push(() => reader.close())
  return reader
}

/**
 * Keeps the first processor busy with two sessions. Another process on it gets a third of its time at most: Linux divides the time among sessions
 * (sched_autogroup_enabled), or else by niceness.
 */
function occupyProcessor(): void {
  for (let session = 0; session < 2; session++) {
    const busy = spawn('taskset', ['-c', '0', process.execPath, '-e', 'for (;;);'], { stdio: 'ignore', detached: true })
    cleanUps.push(() => busy.kill('SIGKILL'))
  }
}

describe('a reader process that waits for a processor', () => {
  test('READ_TIMEOUT later by this time', async () => {
    const before = childrenOf(process.pid)
    const { outline } = openLimitedReader({ outlineTimeoutMs: 1500 })
    occupyProcessor()
    const start = performance.now()
    const reading = outline(file('endless.pdf', endlessPdf()))
    const reader = () => childrenOf(process.pid).find((pid) => !before.includes(pid) && /permission/.test(commandLine(pid)))
    await until(() => reader() !== undefined, 60_000)
    spawn('taskset', ['-a', '-p', '-c', '0', String(reader())], { stdio: 'ignore' })
    await expect(reading).rejects.toMatchObject({ code: 'READ_TIMEOUT' })
    expect(performance.now() - start).toBeGreaterThan(3000)
  })

  test('gets its further passes', async () => {
    occupyProcessor()
    const { command, passes } = fakeTesseract(`taskset -p -c 0 $$; ${workFor(0.6)}`)
    const page = await readPicture(command)
    expect([page.isIncomplete, passes()]).toEqual([false, 3])
  })
})

test('a page whose first pass takes more than a third of the limit is incomplete', async () => {
  const { command, passes } = fakeTesseract(workFor(4))
  const page = await readPicture(command)
  expect([page.isIncomplete, passes()]).toEqual([true, 1])
})

const commandLine = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, 'utf8')

/** Returns a shell command that takes this much processor time. */
const workFor = (seconds: number): string =>
  `'${process.execPath}' -e 'for (let used = process.cpuUsage(); used.user + used.system < ${seconds * 1e6}; ) used = process.cpuUsage()'`

/** A tesseract program that runs a script and finds a word on the whole page with a confidence that asks for further passes. */
function fakeTesseract(script: string): { command: string; passes: () => number } {
  const log = join(folder, 'passes')
  rmSync(log, { force: true })
  const row = ['5', ...Array(5).fill('1'), '0', '0', '2000', '2000', '70', 'Total'].join('\\t')
  const header = 'level\\tpage_num\\tblock_num\\tpar_num\\tline_num\\tword_num\\tleft\\ttop\\twidth\\theight\\tconf\\ttext'
  const lines = ['#!/bin/sh', `echo pass >> ${log}`, `{ ${script}; } > /dev/null`, `printf '${header}\\n${row}\\n'`, '']
  const { path } = file('tesseract', lines.join('\n'))
  chmodSync(path, 0o755)
  return { command: path, passes: () => readFileSync(log, 'utf8').trim().split('\n').length }
}

/** Reads a picture with `command` as the tesseract program, within ten seconds after its process has started. */
async function readPicture(command: string): Promise<ReadPage> {
  const drawn = await scan(['Total amount payable', 'within thirty days'], { width: 900, height: 300 })
  const picture = file('scan.png', await image(drawn).png().toBuffer())
  const reader = openLimitedReader({ pageTimeoutMs: 10_000 }, { ...ocr, engine: 'tesseract-native', command, secondModels: new Map() })
  await reader.outline(picture)
  return reader.page(picture, 1, 'eng')
}

test('pages that are incomplete are named in the warning ocr_incomplete, until the document is read again', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const read = async (isIncomplete: (page: number) => boolean) => {
    const page = async (_file: unknown, number: number): Promise<ReadPage> => ({
      ...{ text: 'words', confidence: 0.5, words: [], language: null, angle: 0, width: 100, height: 100 },
      isIncomplete: isIncomplete(number),
    })
    const reader = { ...fakeReader(5), page }
    const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 2, name: 'here/1' })
    await worker.idle()
    await worker.stop(60_000)
  }
  await read((page) => page === 2 || page > 3)
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'completed',
    warnings: [{ code: 'ocr_incomplete', message: expect.stringContaining('time limit'), pages: [2, 4, 5] }],
  })
  await asAda.call('POST', `/api/documents/${id}/ocr/retry`, {})
  await read(() => false)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', warnings: [] })
})
