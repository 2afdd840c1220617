/**
 * Converts pictures and PDFs to PDF/A with real reader processes, and validates the results with veraPDF.
 *
 *   npm run test:pdfa -- [FOLDER] [--pages N]
 *
 * Without FOLDER, only a page that is made here is converted. veraPDF comes from Maven Central; without Java and Maven the validation is skipped, which is
 * said. Ends with 1 when a result is not valid PDF/A-2u, when a picture cannot be converted, or when words are not where OCR found them.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, extname, join, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { parseArgs, promisify } from 'node:util'
import Table from 'cli-table3'
import sharp from 'sharp'
import { toRow } from '../src/documents/extraction/page-words.ts'
import { openReader } from '../src/extract/process/reader-pool.ts'
import { openLog } from '../src/log/log.ts'
import { findOcr } from '../src/ocr/languages.ts'
import { type PageText, ReadFailure } from '../src/ports/document-reader.ts'
import { pageImage } from './support/data/page-image.ts'

const veraPdf = { version: '1.28.2', program: 'org.verapdf.apps.GreenfieldCliWrapper' }
const types: Record<string, string> = {
  ...{ '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.png': 'image/png', '.tif': 'image/tiff', '.tiff': 'image/tiff', '.bmp': 'image/bmp' },
  '.pdf': 'application/pdf',
}
/** Valid reasons to refuse a PDF; a picture is never refused. */
const refusals = new Set(['NOT_CONVERTIBLE', 'FILE_ENCRYPTED', 'FILE_CORRUPT', 'FILE_TOO_COMPLEX'])
/** Minimum size of files whose results are compared with the size of their pictures. The fixed part of a PDF/A is 3 kB. */
const minComparedBytes = 100_000
const maxSizeRatio = 1.05

const { values, positionals } = parseArgs({ allowPositionals: true, options: { pages: { type: 'string', default: '20' } } })
const run = promisify(execFile)
const print = (line: string) => process.stdout.write(`${line}\n`)
const problems: string[] = []
const folder = await mkdtemp(join(tmpdir(), 'dms-pdfa-'))
const ocr = await findOcr({ engine: 'auto', dataPath: '' })
const limitMs = 120_000
const reader = openReader({
  ...{ slots: 1, tempDir: join(folder, 'readers'), log: openLog({ level: 'error', format: 'json' }), ocr },
  limits: {
    ...{ maxPages: Number(values.pages), maxPixels: 100_000_000, dpi: 200, memoryBytes: 1 << 30 },
    ...{ outlineTimeoutMs: limitMs, pageTimeoutMs: limitMs, thumbnailTimeoutMs: limitMs },
  },
})

interface Converted {
  path: string
  pdf: string
  ratio: number
}

const sums = { pages: 0, ocrMs: 0, pdfMs: 0, bytes: 0, pdfBytes: 0, words: 0 }
const converted: Converted[] = []
const refused = new Map<string, number>()
try {
  await mkdir(join(folder, 'out'))
  for (const path of await inputs()) await convert(path)
  report()
  await validate()
} finally {
  await reader.close()
  await rm(folder, { recursive: true, force: true })
}
for (const problem of problems) print(problem)
process.exitCode = problems.length > 0 ? 1 : 0

async function inputs(): Promise<string[]> {
  if (positionals[0]) {
    const root = resolve(positionals[0])
    const names = await readdir(root, { recursive: true })
    return names.filter((name) => extname(name).toLowerCase() in types).map((name) => join(root, name))
  }
  const { gray, width, height } = await pageImage(['Invoice for the delivery of furniture', 'Four tables, twelve chairs, one bookcase'])
  const path = join(folder, 'page.png')
  await writeFile(
    path,
    await sharp(gray, { raw: { width, height, channels: 1 } })
      .png()
      .toBuffer(),
  )
  return [path]
}

async function convert(path: string): Promise<void> {
  const mimeType = types[extname(path).toLowerCase()] ?? ''
  const file = { path, filename: basename(path), mimeType }
  try {
    const texts: PageText[] = []
    const { pages, mimeType: found } = await reader.outline(file)
    const startMs = performance.now()
    for (const { page } of pages.filter(({ needsOcr }) => needsOcr).slice(0, Number(values.pages))) {
      const { words, angle } = await reader.page(file, page, 'eng')
      texts.push({ page, angle, words: words.map(toRow) })
    }
    const middleMs = performance.now()
    const time = '2024-01-02T03:04:05Z'
    const info = {
      title: file.filename,
      author: null,
      created: time,
      modified: time,
      language: null,
      producer: 'dms',
      sha256: '0'.repeat(64),
    }
    const each = async function* () {
      yield* texts
    }
    const bytes = await reader.pdfa(file, each(), info, (stream) => buffer(stream))
    const endMs = performance.now()
    const pdf = join(folder, 'out', `${converted.length}-${file.filename.replace(/[^\w.-]/g, '_')}.pdf`)
    await writeFile(pdf, bytes)
    const { size } = await stat(path)
    converted.push({ path, pdf, ratio: bytes.length / size })
    if (texts.length > 0 && found !== 'application/pdf') {
      sums.pages += texts.length
      sums.ocrMs += middleMs - startMs
      sums.pdfMs += endMs - middleMs
    }
    if (size >= minComparedBytes) {
      sums.bytes += size
      sums.pdfBytes += bytes.length
    }
    sums.words += texts.reduce((sum, { words }) => sum + words.length, 0)
  } catch (error) {
    if (!(error instanceof ReadFailure)) throw error
    const isRefusal = mimeType === 'application/pdf' && refusals.has(error.code)
    if (isRefusal) refused.set(error.code, (refused.get(error.code) ?? 0) + 1)
    else problems.push(`${path}: ${error.code} ${error.message}`)
  }
}

function report(): void {
  const { pages, ocrMs, pdfMs, bytes, pdfBytes, words } = sums
  const table = new Table({
    head: ['converted', 'refused', 'words', 'OCR, ms a picture', 'PDF/A, ms a picture', 'PDF/A / OCR', 'bytes, ratio'],
  })
  const refusedCount = [...refused.values()].reduce((sum, count) => sum + count, 0)
  const perPage = (ms: number) => (pages === 0 ? '' : (ms / pages).toFixed(0))
  const share = ocrMs === 0 ? '' : `${((100 * pdfMs) / ocrMs).toFixed(1)} %`
  table.push([
    converted.length,
    refusedCount,
    words,
    perPage(ocrMs),
    perPage(pdfMs),
    share,
    bytes === 0 ? '' : (pdfBytes / bytes).toFixed(3),
  ])
  print(table.toString())
  if (bytes > 0 && pdfBytes > bytes * maxSizeRatio)
    problems.push(`the results have ${(pdfBytes / bytes).toFixed(3)} times the size of their files`)
}

async function validate(): Promise<void> {
  const jar = await fetchVeraPdf()
  if (jar === null) {
    print('not validated: Java and Maven are needed for veraPDF')
    return
  }
  const paths = (await readdir(join(folder, 'out'))).map((name) => join(folder, 'out', name))
  const options = ['-cp', jar, veraPdf.program, '-f', '2u', '--format', 'text', '-v', ...paths]
  // Exit 1: some are not valid.
  const { stdout } = await run('java', options, { maxBuffer: 1 << 28 }).catch((error: { stdout: string }) => error)
  const lines = stdout.split('\n')
  const valid = lines.filter((line) => line.startsWith('PASS ')).length
  print(`veraPDF ${veraPdf.version}: ${valid} of ${paths.length} are valid PDF/A-2u`)
  problems.push(...lines.filter((line) => /^\s*FAIL /.test(line)))
  if (valid !== paths.length) problems.push(`${paths.length - valid} results are not valid`)
}

/** Returns the path of veraPDF, from Maven's own cache or Maven Central; null without Java or Maven. */
async function fetchVeraPdf(): Promise<string | null> {
  const artifact = `org.verapdf.apps:greenfield-apps:${veraPdf.version}`
  const jar = join(homedir(), '.m2/repository/org/verapdf/apps/greenfield-apps', veraPdf.version, `greenfield-apps-${veraPdf.version}.jar`)
  try {
    await run('java', ['-version'])
    const isThere = await readFile(jar).then(
      () => true,
      () => false,
    )
    if (!isThere) await run('mvn', ['-q', 'dependency:get', `-Dartifact=${artifact}`, '-Dtransitive=false'])
    await stat(jar)
    return jar
  } catch {
    return null
  }
}
