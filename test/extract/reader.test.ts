import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openReader, type ReaderSettings } from '../../src/extract/process/reader-pool.ts'
import { openLog } from '../../src/log/log.ts'
import { findOcr } from '../../src/ocr/languages.ts'
import type { DocumentReader } from '../../src/ports/document-reader.ts'
import type { InstalledOcr } from '../../src/ports/ocr-engine.ts'
import { pidNamespace } from '../../src/processes.ts'
import { image, scan } from '../support/data/files.ts'
import { endlessPdf, pdf } from '../support/data/pdf-file.ts'
import { childrenOf, commandOf, isRunning, until } from '../support/processes/processes.ts'
import type { ReaderParentSettings } from '../support/processes/reader-parent.ts'

const folder = mkdtempSync(join(tmpdir(), 'dms-reader-'))
const tempDir = join(folder, 'tmp')
const open: DocumentReader[] = []
let ocr: InstalledOcr
let before: number[]

beforeAll(async () => {
  ocr = await findOcr({ engine: 'tesseract-js', dataPath: '' })
  before = childrenOf(process.pid)
})

afterEach(async () => {
  await Promise.all(open.splice(0).map((reader) => reader.close()))
  expect(childrenOf(process.pid)).toEqual(before)
  expect(readdirSync(tempDir)).toEqual([])
})

afterAll(() => rmSync(folder, { recursive: true }))

function reader(limits: Partial<ReaderSettings['limits']> = {}, slots = 1, setup = ocr): DocumentReader {
  mkdirSync(tempDir, { recursive: true })
  const all = {
    outlineTimeoutMs: 30_000,
    pageTimeoutMs: 30_000,
    thumbnailTimeoutMs: 30_000,
    memoryBytes: 1e9,
    maxPages: 10,
    maxPixels: 2e7,
    dpi: 150,
    ...limits,
  }
  const opened = openReader({ slots, tempDir, log: openLog({ level: 'silent', format: 'json' }), ocr: setup, limits: all })
  open.push(opened)
  return opened
}

function file(name: string, bytes: Uint8Array | string) {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return { path, filename: basename(path), mimeType: 'application/octet-stream' }
}

const text = () => file('a.txt', 'some words')
const endless = () => file('endless.pdf', endlessPdf())
const ours = () => childrenOf(process.pid).filter((pid) => !before.includes(pid))

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (problem) => [problem.code, problem.isRetryable],
  )

describe('a reader', () => {
  test('reads outline and thumbnail, and keeps its process for the next file', async () => {
    const { outline, thumbnail } = reader()
    expect(await outline(text())).toEqual({
      mimeType: 'text/plain',
      hasReader: true,
      metadata: {},
      pages: [{ page: 1, text: 'some words', needsOcr: false, width: null, height: null }],
    })
    const [first] = ours()
    expect(await thumbnail(text(), { width: 10, height: 10 }, 'image/webp')).toBeNull()
    expect(await thumbnail(file('a.pdf', pdf({ pages: [{ text: ['x'] }] })), { width: 10, height: 10 }, 'image/webp')).toBeInstanceOf(
      Uint8Array,
    )
    expect(ours()).toEqual([first])
  })

  test('reads a scan by OCR', async () => {
    const picture = await scan(['The quick brown fox', 'jumps over the lazy dog'], { width: 900, height: 300 })
    const page = await reader().page(file('scan.png', await image(picture).png().toBuffer()), 1, 'eng')
    expect(page.text.trim().split(/\s+/).join(' ')).toBe('The quick brown fox jumps over the lazy dog')
    expect(page).toMatchObject({ width: 900, height: 300 })
    expect(page.confidence).toBeGreaterThan(0.8)
  })

  test('joins OCR of the picture and the text over it', async () => {
    const picture = await scan(['Invoice from Hamburg'], { width: 900, height: 300 })
    const jpeg = { bytes: await image(picture).jpeg().toBuffer(), width: 900, height: 300 }
    const mixed = file('mixed.pdf', pdf({ pages: [{ jpeg, text: ['', '', '', '', 'Received'], width: 450, height: 150 }] }))
    const { text } = await reader().page(mixed, 1, 'eng')
    expect(text).toMatch(/Received[\s\S]*Invoice from Hamburg/)
    expect(text.match(/Received/g)).toHaveLength(1)
  })

  test('as many files at once as it has slots, the others in turn', async () => {
    const opened = reader({}, 2)
    const found = await Promise.all(Array.from({ length: 6 }, (_, i) => opened.outline(file(`${i}.txt`, `text ${i}`))))
    expect(found.map(({ pages }) => pages[0]!.text)).toEqual(['text 0', 'text 1', 'text 2', 'text 3', 'text 4', 'text 5'])
    expect(ours()).toHaveLength(2)
  })

  test('reads small files together in one process, null for one that cannot be read', async () => {
    const { outline, outlines } = reader()
    const [a, bad, b] = await outlines([file('a.txt', 'text a'), file('bad.pdf', '%PDF-1.4 no'), file('b.txt', 'text b')])
    expect([a?.pages[0]?.text, bad, b?.pages[0]?.text]).toEqual(['text a', null, 'text b'])
    const [first] = ours()
    expect((await outline(text())).pages[0]!.text).toBe('some words')
    expect(ours()).toEqual([first])
  })

  test('READ_CRASHED for files that are read together when their process dies; each of the others is read afterwards', async () => {
    const { outlines } = reader()
    const reading = failureOf(outlines([text(), endless()]))
    await until(() => ours().length === 1, 60_000)
    process.kill(ours()[0]!, 'SIGKILL')
    expect(await reading).toEqual(['READ_CRASHED', true])
    expect((await outlines([text()]))[0]?.pages[0]?.text).toBe('some words')
  })

  test('its process is replaced after 1,000 files, because parsers leak memory', async () => {
    const { outline } = reader()
    await outline(text())
    const [first] = ours()
    for (let i = 1; i < 1000; i++) await outline(text())
    await outline(text())
    expect(ours()).not.toContain(first)
  })

  test('its process ends after a minute without work', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    await reader().outline(text())
    expect(ours()).toHaveLength(1)
    vi.advanceTimersByTime(60_000)
    vi.useRealTimers()
    await until(() => ours().length === 0, 60_000)
  })

  test('OCR_LANGUAGE_MISSING with the language, without a process', async () => {
    await expect(reader().page(text(), 1, 'eng+xxx')).rejects.toMatchObject({
      code: 'OCR_LANGUAGE_MISSING',
      message: expect.stringContaining('xxx'),
    })
    expect(ours()).toEqual([])
  })

  test('a bad file fails alone, and its process goes on', async () => {
    const { outline } = reader()
    await outline(text())
    const [first] = ours()
    expect(await failureOf(outline(file('bad.pdf', '%PDF-1.4 no')))).toEqual(['FILE_CORRUPT', false])
    expect((await outline(text())).pages[0]!.text).toBe('some words')
    expect(ours()).toEqual([first])
  })
})

describe('a file that is never finished', () => {
  test('READ_TIMEOUT at the limit; the next file is read', async () => {
    const { outline } = reader({ outlineTimeoutMs: 3000 })
    // A pipe without a writer stops the main thread of the process.
    const pipe = join(folder, 'pipe.pdf')
    execFileSync('mkfifo', [pipe])
    const start = performance.now()
    expect(await failureOf(outline({ path: pipe, filename: 'pipe.pdf', mimeType: 'application/pdf' }))).toEqual(['READ_TIMEOUT', false])
    // Waits for a processor come on top.
    expect(performance.now() - start).toBeLessThan(25_000)
    expect((await outline(text())).pages[0]!.text).toBe('some words')
  })

  test('READ_OUT_OF_MEMORY above the limit', async () => {
    expect(await failureOf(reader({ memoryBytes: 40e6 }).outline(endless()))).toEqual(['READ_OUT_OF_MEMORY', false])
  })

  test('an abort rejects at once, with its reason', async () => {
    const { outline } = reader()
    const controller = new AbortController()
    const reading = failureOf(outline(endless(), { signal: controller.signal }).catch((problem) => Promise.reject({ code: problem })))
    await until(() => ours().length === 1, 60_000)
    const [pid] = ours()
    const start = performance.now()
    controller.abort('enough')
    expect(await reading).toEqual(['enough', undefined])
    expect(performance.now() - start).toBeLessThan(2000)
    await until(() => !isRunning(pid!), 60_000)
  })

  test('an abort ends a wait for a free slot', async () => {
    const { outline } = reader({ outlineTimeoutMs: 1000 })
    const first = failureOf(outline(endless()))
    const controller = new AbortController()
    const second = outline(text(), { signal: controller.signal })
    controller.abort('no time')
    await expect(second).rejects.toBe('no time')
    await first
    await expect(outline(text(), { signal: AbortSignal.abort('before') })).rejects.toBe('before')
  })

  test('READ_CRASHED when its process dies; another attempt may succeed', async () => {
    const reading = failureOf(reader().outline(endless()))
    await until(() => ours().length === 1, 60_000)
    process.kill(ours()[0]!, 'SIGKILL')
    expect(await reading).toEqual(['READ_CRASHED', true])
  })

  test('is read again in a new process when a process dies that has read another file before', async () => {
    const { outline } = reader()
    await outline(text())
    const [shared] = ours()
    const large = outline(file('large.csv', 'some words,'.repeat(1_500_000)))
    process.kill(shared!, 'SIGKILL')
    expect((await large).pages[0]!.text).toMatch(/^some words,some words/)
    expect(ours()).not.toContain(shared)
  })

  test('READ_CRASHED when the new process dies too; two processes were started for it', async () => {
    const { outline } = reader()
    await outline(text())
    const reading = failureOf(outline(endless()))
    const [shared] = ours()
    process.kill(shared!, 'SIGKILL')
    await until(() => ours().length === 1 && ours()[0] !== shared, 60_000)
    process.kill(ours()[0]!, 'SIGKILL')
    expect(await reading).toEqual(['READ_CRASHED', true])
  })

  test('close() ends it', async () => {
    const opened = reader({}, 1)
    const reading = [failureOf(opened.outline(endless())), failureOf(opened.outline(text()))]
    await until(() => ours().length === 1, 60_000)
    await opened.close()
    expect(ours()).toEqual([])
    expect(await Promise.all(reading)).toEqual([
      ['READ_CRASHED', true],
      ['READ_CRASHED', true],
    ])
  })
})

/** A tesseract program that never ends, and the file with its pid. */
function endlessTesseract(): { command: string; pidFile: string } {
  const pidFile = join(folder, 'pid')
  rmSync(pidFile, { force: true })
  const command = file('tesseract', `#!/bin/sh\necho $$ > ${pidFile}\nexec sleep 60\n`).path
  chmodSync(command, 0o755)
  return { command, pidFile }
}

async function pidIn(pidFile: string): Promise<number> {
  await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8').endsWith('\n'), 60_000)
  return Number(readFileSync(pidFile, 'utf8'))
}

async function smallPicture() {
  const picture = image(await scan(['x'], { width: 100, height: 100 }))
  return file('p.png', await picture.png().toBuffer())
}

test('a program that its process started ends with it', async () => {
  const { command, pidFile } = endlessTesseract()
  const { page } = reader({}, 1, { ...ocr, engine: 'tesseract-native', command })
  const controller = new AbortController()
  const reading = page(await smallPicture(), 1, 'eng', { signal: controller.signal })
  const pid = await pidIn(pidFile)
  expect(isRunning(pid)).toBe(true)
  controller.abort('cancelled')
  await expect(reading).rejects.toBe('cancelled')
  await until(() => !isRunning(pid), 500)
})

/** Starts a process with one reader process, which reads a file; its settings are those of reader-parent.ts. */
async function startParent(settings: Partial<ReaderParentSettings>): Promise<{ parent: ChildProcess; child: number }> {
  mkdirSync(tempDir, { recursive: true })
  const program = fileURLToPath(new URL('../support/processes/reader-parent.ts', import.meta.url))
  const all: ReaderParentSettings = { path: endless().path, tempDir, ...settings }
  const parent = spawn(process.execPath, [program, JSON.stringify(all)], { stdio: ['ignore', 'pipe', 'ignore'] })
  await once(parent.stdout, 'data')
  await until(() => readersOf(parent).length === 1, 20_000)
  return { parent, child: readersOf(parent)[0]! }
}

/** Any other call asks for features of the program, and ends at once. */
const readersOf = ({ pid = 0 }: ChildProcess) => childrenOf(pid).filter((child) => commandOf(child).includes('--permission'))

/** Kills it as the kernel would; the pids of its children stay valid. */
async function killParent(parent: ChildProcess): Promise<void> {
  const ended = once(parent, 'exit')
  parent.kill('SIGKILL')
  await ended
}

/** Long enough to be reading the endless file. */
const untilStuck = () => new Promise((resolve) => setTimeout(resolve, 1500))

describe('a killed server', () => {
  test('leaves no reader process, and the next reader removes its folder', async () => {
    const { parent, child } = await startParent({})
    await untilStuck()
    await killParent(parent)
    await until(() => !isRunning(child), 60_000)
    expect(readdirSync(tempDir)).toHaveLength(1)
    await reader().close()
  })

  test('leaves none when it is killed before its reader process has started', async () => {
    const { parent, child } = await startParent({ startDelay: 2 })
    expect(commandOf(child)).toMatch(/^\/bin\/sh/)
    await killParent(parent)
    expect(isRunning(child)).toBe(true)
    await until(() => !isRunning(child), 60_000)
    await reader().close()
  })

  test('leaves no program that its reader process has started', async () => {
    const { command, pidFile } = endlessTesseract()
    const { parent, child } = await startParent({ kind: 'page', command, path: (await smallPicture()).path })
    const pid = await pidIn(pidFile)
    await killParent(parent)
    await until(() => !isRunning(child) && !isRunning(pid), 60_000)
    await reader().close()
  })
})

describe('a server that hangs', () => {
  /** Stops the server. Returns the milliseconds until its reader process has ended by itself. */
  async function endedBeside(settings: Partial<ReaderParentSettings>): Promise<number> {
    const { parent, child } = await startParent(settings)
    parent.kill('SIGSTOP')
    const took = await until(() => !isRunning(child), 90_000).finally(() => killParent(parent))
    await reader().close()
    return took
  }

  test('a reader process ends after twice its timeout in processor time, or ten times on the wall clock', async () => {
    expect(await endedBeside({ timeoutMs: 2000, startDelay: 1 })).toBeLessThan(60_000)
  })

  test('a reader process ends above its memory limit', async () => {
    expect(await endedBeside({ memory: 40e6, startDelay: 1 })).toBeLessThan(60_000)
  })
})

test('the kernel limits CPU time and memory of a reader process and its children', async () => {
  const { command, pidFile } = endlessTesseract()
  const { parent, child } = await startParent({
    kind: 'page',
    command,
    path: (await smallPicture()).path,
    memory: 1e9,
    timeoutMs: 100_000,
  })
  const program = await pidIn(pidFile)
  for (const pid of [child, program]) {
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1')
    expect(limits).toMatch(/^Max cpu time +2000 +2000 +seconds/m)
    expect(limits).toMatch(/^Max data size +4221225984 +4221225984 +bytes/m)
  }
  await killParent(parent)
  await until(() => !isRunning(child) && !isRunning(program), 60_000)
  await reader().close()
})

test('folders of running servers, other hosts and containers are left alone, the latter for a week', () => {
  mkdirSync(tempDir, { recursive: true })
  const kept = [`reader-elsewhere-${process.pid}-1-abc`, `reader-${pidNamespace}-${process.ppid}-1-abc`, 'something']
  const removed = [`reader-${pidNamespace}-${process.pid}-1-abc`, `reader-${pidNamespace}-999999999-1-abc`, 'reader-elsewhere-1-1-old']
  for (const name of [...kept, ...removed]) mkdirSync(join(tempDir, name))
  const eightDaysAgo = new Date(Date.now() - 8 * 24 * 3600 * 1000)
  utimesSync(join(tempDir, 'reader-elsewhere-1-1-old'), eightDaysAgo, eightDaysAgo)
  reader()
  expect(readdirSync(tempDir).sort()).toEqual([...kept].sort())
  for (const name of kept) rmSync(join(tempDir, name), { recursive: true })
  expect(existsSync(tempDir)).toBe(true)
})
