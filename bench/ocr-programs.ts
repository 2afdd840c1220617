/** OCR programs for `bench/ocr.ts` and `bench/pdfa.ts`. Each reads the same scanned pages and returns their text. */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { toRow } from '../src/documents/extraction/page-words.ts'
import { openReader } from '../src/extract/process/reader-pool.ts'
import { openLog } from '../src/log/log.ts'
import type { InstalledOcr } from '../src/ports/ocr-engine.ts'
import { scannedPdf } from '../test/support/data/page-image.ts'
import type { Scan } from './scans.ts'

const run = promisify(execFile)
const env = { ...process.env, OMP_THREAD_LIMIT: '1' }
export const cores = availableParallelism()

/** The pages as JPEGs and as one PDF. */
export interface Stack {
  readonly dpi: number
  readonly truths: readonly string[]
  readonly pdf: string
  readonly jpegs: readonly string[]
}

export interface Reading {
  /** one text per page; empty if the program returns none */
  readonly texts: readonly string[]
  readonly pagesPerMinute: number
  /** pages per minute of CPU time on one core, which load of the machine changes little; NaN without /proc */
  readonly pagesPerCpuMinute: number
}

const time = '2026-01-02T03:04:05Z'
const info = { title: 'scan', author: null, created: time, modified: time, language: 'en', producer: 'dms', sha256: '0'.repeat(64) }

export type Program = (stack: Stack) => Promise<Reading>

/** Returns the CPU time of all child processes so far, in milliseconds. */
export async function cpuTime(): Promise<number> {
  const fields = async (pid: number | string) => {
    const line = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
    return line
      .slice(line.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
      .map(Number)
  }
  const living = await readFile(`/proc/self/task/${process.pid}/children`, 'latin1').catch(() => '')
  const [, , ...ended] = await fields('self')
  const all = [ended, ...(await Promise.all(living.trim().split(' ').filter(Boolean).map(fields)))]
  return all.flat().reduce((sum, ticks) => sum + ticks, 0) * 10
}

export async function layDown(scans: readonly Scan[], name: string, folder: string): Promise<Stack> {
  const jpegs = scans.map((_, index) => join(folder, `${name}-${index}.jpg`))
  for (const [index, path] of jpegs.entries()) await writeFile(path, scans[index]!.jpeg)
  const pdf = join(folder, `${name}.pdf`)
  await writeFile(pdf, scannedPdf(scans))
  return { dpi: scans[0]!.dpi, truths: scans.map(({ truth }) => truth), pdf, jpegs }
}

/** The reader of dms with all its slots, already started as on a running server. `onPdfa` receives a searchable PDF/A of the pages. */
export const ours =
  (setup: InstalledOcr, folder: string, onPdfa?: (bytes: Buffer) => void): Program =>
  async ({ pdf, truths }) => {
    const minute = 60_000
    const limits = { outlineTimeoutMs: minute, pageTimeoutMs: minute, thumbnailTimeoutMs: minute, maxPages: 500, maxPixels: 60e6, dpi: 200 }
    const log = openLog({ level: 'warn', format: 'pretty' })
    const reader = openReader({ slots: 0, tempDir: folder, log, ocr: setup, limits: { ...limits, memoryBytes: 1.5e9 } })
    const file = { path: pdf, filename: 'scan.pdf', mimeType: 'application/pdf' }
    try {
      await Promise.all(Array.from({ length: reader.slots }, () => reader.page(file, 1, 'eng')))
      return await timed(truths.length, async () => {
        const { pages } = await reader.outline(file)
        if (!pages.every(({ needsOcr }) => needsOcr)) throw new Error('a scanned page is taken for text')
        const read = await inParallel(reader.slots, truths.length, (index) => reader.page(file, index + 1, 'eng'))
        if (onPdfa) {
          const texts = read.map(({ words, angle }, index) => ({ page: index + 1, angle, words: words.map(toRow) }))
          onPdfa(await reader.pdfa(file, Readable.from(texts), info, buffer))
        }
        return read.map(({ text }) => text)
      })
    } finally {
      await reader.close()
    }
  }

/** The tesseract program as run by hand: one process with one thread for each core. */
export const plainTesseract =
  (models: string | null): Program =>
  ({ jpegs, dpi }) =>
    timed(jpegs.length, () =>
      inParallel(cores, jpegs.length, async (index) => {
        const folder = models ? ['--tessdata-dir', models] : []
        const found = await run('tesseract', [jpegs[index]!, '-', ...folder, '-l', 'eng', '--psm', '3', '--dpi', String(dpi)], { env })
        return found.stdout
      }),
    )

/** Creates a searchable PDF of the same scan, which includes more work than text. */
export const ocrmypdf: Program = ({ pdf, truths }) =>
  timed(truths.length, async () => {
    await run('ocrmypdf', ['--quiet', '--jobs', '2', '-l', 'eng', pdf, `${pdf}.out`], { env })
    return []
  })

export async function answers(command: string, option = '--version'): Promise<string | null> {
  const found = await run(command, [option]).catch(() => null)
  return found && (found.stdout || found.stderr).split('\n')[0]!.trim()
}

async function timed(pages: number, work: () => Promise<readonly string[]>): Promise<Reading> {
  const [cpu, start] = [await cpuTime(), performance.now()]
  const texts = await work()
  const [minutes, cpuMinutes] = [(performance.now() - start) / 60_000, ((await cpuTime()) - cpu) / 60_000]
  return { texts, pagesPerMinute: pages / minutes, pagesPerCpuMinute: pages / cpuMinutes }
}

async function inParallel<T>(slots: number, count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  let next = 0
  const readNext = async () => {
    for (let index = next++; index < count; index = next++) results[index] = await work(index)
  }
  await Promise.all(Array.from({ length: slots }, readNext))
  return results
}
