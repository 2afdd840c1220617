import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrEngine, OcrSetup, PageImage } from '../../ports/ocr-engine.ts'
import { openModels } from './models.ts'
import { settings } from './settings.ts'
import { toTiff } from './tiff.ts'
import { readTsv } from './tsv.ts'

type Child = ChildProcessByStdio<null, Readable, Readable>

/** bytes of output that no page reaches */
const largestOutput = 32 * 1024 * 1024
const header = 'level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n'

/**
 * One thread: without the limit Tesseract spins on every core, which makes a page five times as dear.
 * And memory that is kept, not given back to the system and fetched again many times a page.
 */
const env = { OMP_THREAD_LIMIT: '1', LC_ALL: 'C', MALLOC_TRIM_THRESHOLD_: '1000000000', MALLOC_MMAP_THRESHOLD_: '1000000000' }

/** The tesseract program of this machine, run once for each page. Private files go below `folder`. */
export async function openTesseractNative({ command, languages }: OcrSetup, folder = process.cwd()): Promise<OcrEngine> {
  const program = command ?? 'tesseract'
  const models = await openModels(languages, folder)
  // A file, because the program reads a pipe byte by byte.
  const image = join(models.folder, 'page.tif')
  const variables = Object.entries({ ...settings, tessedit_create_tsv: '1' }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  let running: Child | null = null

  async function run(page: PageImage, language: string): Promise<string> {
    await writeFile(image, toTiff(page))
    const model = ['--tessdata-dir', models.folder, '-l', language, '--oem', '1']
    const child = spawn(program, [image, '-', ...model, '--psm', '3', '--dpi', String(page.dpi), ...variables], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    running = child
    return output(child).finally(() => {
      running = null
    })
  }

  return {
    name: 'tesseract-native',
    async recognize(page, language) {
      await models.provide(language)
      const tsv = await run(page, language)
      if (!tsv.startsWith(header)) throw new ReadFailure('OCR_FAILED', `OCR failed: ${program} gave no result.`)
      return readTsv(tsv.slice(header.length))
    },
    async close() {
      running?.kill('SIGKILL')
      await models.close()
    },
  }
}

/** What the program prints; throws ReadFailure OCR_FAILED where it ends badly or never stops talking. */
async function output(child: Child): Promise<string> {
  const ended = Promise.withResolvers<void>()
  const fail = (why: string, retry = false) => ended.reject(new ReadFailure('OCR_FAILED', `OCR failed: ${why}`, retry))
  const chunks: Buffer[] = []
  let size = 0
  let complaint = ''
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= largestOutput) return chunks.push(chunk)
    child.kill('SIGKILL')
    return fail('the program printed too much.')
  })
  child.stderr.on('data', (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-500)
  })
  child.on('error', (error) => fail(error.message))
  child.on('close', (status, signal) => {
    if (status === 0) ended.resolve()
    else
      fail(signal ? `the program was ended by ${signal}.` : `the program ended with status ${status}. ${complaint.trim()}`, signal !== null)
  })
  await ended.promise
  return Buffer.concat(chunks).toString()
}
