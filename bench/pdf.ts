/**
 * How well and how fast is the text of born-digital PDFs read? Ours beside pdftotext, on the same files.
 *
 *   node bench/pdf.ts [FOLDER] [--worst 10]
 *
 * FOLDER: PDFs to read, also in subfolders; without it, PDFs are made. For the comparison install poppler-utils (Debian's name). Our reader process
 * is warm, as it is in a running server. Files that either program refuses are listed and left out.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { openReader } from '../src/extract/process/reader-pool.ts'
import { openLog } from '../src/log/log.ts'
import { recall } from '../test/corpus/words.ts'
import { pdf } from '../test/support/data/pdf-file.ts'
import { answers, cpuTime } from './ocr-programs.ts'
import { report } from './report/figure.ts'
import { seeded } from './search-corpus.ts'

const { values, positionals } = parseArgs({ allowPositionals: true, options: { worst: { type: 'string', default: '10' } } })
const run = promisify(execFile)
const print = (line: string): void => void process.stdout.write(`${line}\n`)
const temporary = await mkdtemp(join(tmpdir(), 'bench-pdf-'))
const limits = {
  maxPages: 10_000,
  maxPixels: 40_000_000,
  dpi: 200,
  outlineTimeoutMs: 60_000,
  pageTimeoutMs: 60_000,
  thumbnailTimeoutMs: 60_000,
  memoryBytes: 1_500_000_000,
}
const reader = openReader({ slots: 1, tempDir: temporary, log: openLog({ level: 'error', format: 'json' }), ocr: null, limits })
try {
  await compare(positionals[0] ? await filesOf(positionals[0]) : await makeFiles())
} finally {
  await reader.close()
  await rm(temporary, { recursive: true, force: true })
}

interface Reading {
  readonly text: string
  readonly pages: number
  readonly ocrPages: number
}

async function compare(files: readonly string[]): Promise<void> {
  const hasPdftotext = (await answers('pdftotext', '-v')) !== null
  if (!hasPdftotext) print('pdftotext: not installed, left out')
  await ours(files[0]!).catch(() => {})
  const rows: { path: string; found: number; written: number }[] = []
  const totals = { ours: 0, pdftotext: 0, pages: 0, ocrPages: 0 }
  for (const path of files) {
    const [own, ownMs] = await timed(() => ours(path))
    const [text, pdftotextMs] = hasPdftotext ? await timed(() => pdftotext(path)) : ['', 0]
    if (own instanceof Error || text instanceof Error) {
      print(
        `left out: ${path} (ours: ${own instanceof Error ? own.message : 'read'}; pdftotext: ${text instanceof Error ? 'refused' : 'read'})`,
      )
      continue
    }
    totals.ours += ownMs
    totals.pdftotext += pdftotextMs
    totals.pages += own.pages
    totals.ocrPages += own.ocrPages
    if (hasPdftotext) rows.push({ path, ...recall(text, own.text) })
  }
  print(`${files.length} files, ${totals.pages} pages, ${totals.ocrPages} for OCR; processor time ${(totals.ours / 1000).toFixed(2)} s`)
  const msOfPage = totals.ours / totals.pages
  const peers: Record<string, number> = hasPdftotext ? { pdftotext: totals.pdftotext / totals.pages } : {}
  report({ measure: 'page', unit: 'ms of CPU', value: msOfPage, peers, better: 'lower' })
  if (!hasPdftotext) return
  const [found, written] = [sum(rows.map((row) => row.found)), sum(rows.map((row) => row.written))]
  report({ measure: 'words read', unit: 'words', value: found, peers: { pdftotext: written }, better: 'higher' })
  print(`words of pdftotext that are read: ${(found / written).toFixed(4)} of ${written}`)
  print(
    `processor time of pdftotext: ${(totals.pdftotext / 1000).toFixed(2)} s; ours is ${(totals.ours / totals.pdftotext).toFixed(2)} of it`,
  )
  const worst = rows.filter((row) => row.found < row.written).sort((a, b) => b.written - b.found - (a.written - a.found))
  for (const row of worst.slice(0, Number(values.worst))) print(`  ${row.written - row.found} of ${row.written} words missing: ${row.path}`)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

/** Returns the result or the error, and the milliseconds of processor time of all child processes. */
async function timed<T>(work: () => Promise<T>): Promise<[T | Error, number]> {
  const before = await cpuTime()
  const result = await work().catch((problem: Error) => problem)
  return [result, (await cpuTime()) - before]
}

async function ours(path: string): Promise<Reading> {
  const { pages } = await reader.outline({ path, filename: path, mimeType: 'application/pdf' })
  return { text: pages.map(({ text }) => text).join('\n'), pages: pages.length, ocrPages: pages.filter(({ needsOcr }) => needsOcr).length }
}

async function pdftotext(path: string): Promise<string> {
  const { stdout } = await run('pdftotext', ['-enc', 'UTF-8', path, '-'], { maxBuffer: 2 ** 30, timeout: 60_000 })
  return stdout
}

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true })
  return entries
    .filter((name) => /\.pdf$/i.test(name))
    .sort()
    .map((name) => join(folder, name))
}

/** Makes a book of 300 pages and letters of one page, with random words. */
async function makeFiles(): Promise<string[]> {
  const random = seeded(17)
  const syllables = ['ka', 'to', 'men', 'ver', 'ti', 'on', 'la', 'sur', 'de', 'pri', 'no', 'ex', 'am', 'ple']
  const pick = (): string => syllables[Math.floor(random() * syllables.length)]!
  const word = (): string => Array.from({ length: 1 + Math.floor(random() * 4) }, pick).join('')
  const line = (): string => Array.from({ length: 10 }, word).join(' ')
  const page = () => ({ text: Array.from({ length: 45 }, line), leading: 16 })
  const book = pdf({ pages: Array.from({ length: 300 }, page) })
  const letters = Array.from({ length: 30 }, () => pdf({ pages: [page()] }))
  const paths: string[] = []
  for (const [i, bytes] of [book, ...letters].entries()) {
    paths.push(join(temporary, `${i}.pdf`))
    await writeFile(paths.at(-1)!, bytes)
  }
  return paths
}
