/** OCR engine: the tesseract program of this machine, run once for each page. */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrEngine, OcrSetup, PageImage } from '../../ports/ocr-engine.ts'
import { openModels, osdCode } from './models.ts'
import { scriptCode, segmentationModes, tesseractVariables, toTiff } from './tesseract-input.ts'
import { parseTsv, tsvHeader } from './tsv.ts'

type Child = ChildProcessByStdio<null, Readable, Readable>

/** Maximum output of a page, in bytes. */
const maxOutputBytes = 32 * 1024 * 1024

/**
 * OMP_THREAD_LIMIT: with more threads Tesseract spins on every core, and a page costs five times the processor time.
 * MALLOC_*: keeps freed memory in the process instead of returning it to the system many times a page.
 */
const env = { OMP_THREAD_LIMIT: '1', LC_ALL: 'C', MALLOC_TRIM_THRESHOLD_: '1000000000', MALLOC_MMAP_THRESHOLD_: '1000000000' }

/** Opens the engine. Private files go below `folder`. */
export async function openTesseractNative(setup: OcrSetup, folder = process.cwd()): Promise<OcrEngine> {
  const program = setup.command ?? 'tesseract'
  const models = await openModels(setup, folder)
  // A file, because the program reads a pipe byte by byte.
  const image = join(models.folder, 'page.tif')
  const variables = Object.entries({ ...tesseractVariables, tessedit_create_tsv: '1' }).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ])
  let running: Child | null = null

  async function run(page: PageImage, names: string, options: readonly string[]): Promise<string> {
    await writeFile(image, toTiff(page))
    const model = ['--tessdata-dir', models.folder, '-l', names]
    const child = spawn(program, [image, '-', ...model, '--dpi', String(page.dpi), ...options], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    running = child
    return readOutput(child).finally(() => {
      running = null
    })
  }

  return {
    name: 'tesseract-native',
    async recognize(page, language, { layout, model }) {
      const names = await models.provide(language, model)
      const tsv = await run(page, names, ['--oem', '1', '--psm', segmentationModes[layout], ...variables])
      if (!tsv.startsWith(tsvHeader)) throw new ReadFailure('OCR_FAILED', `OCR failed: ${program} gave no result.`)
      return parseTsv(tsv.slice(tsvHeader.length))
    },
    hasSecondModel: models.hasSecond,
    async detectScript(page) {
      if (setup.osd === null) return null
      await models.provide(osdCode)
      // The program fails on pages with too little text.
      const output = await run(page, osdCode, ['--psm', '0']).catch(() => '')
      const confidence = Number(/^Script confidence: ([\d.]+)$/m.exec(output)?.[1] ?? 0)
      return scriptCode(/^Script: (\w+)$/m.exec(output)?.[1], confidence)
    },
    async close() {
      running?.kill('SIGKILL')
      await models.close()
    },
  }
}

/** Returns the standard output. Throws ReadFailure OCR_FAILED if the program fails or prints too much. */
async function readOutput(child: Child): Promise<string> {
  const exit = Promise.withResolvers<void>()
  const fail = (reason: string, options = {}) => exit.reject(new ReadFailure('OCR_FAILED', `OCR failed: ${reason}`, options))
  const chunks: Buffer[] = []
  let size = 0
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= maxOutputBytes) return chunks.push(chunk)
    child.kill('SIGKILL')
    return fail('the program printed too much.')
  })
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-500)
  })
  child.on('error', (error) => fail(error.message))
  child.on('close', (status, signal) => {
    if (status === 0) exit.resolve()
    else if (signal) fail(`the program was ended by ${signal}.`, { isRetryable: true })
    else fail(`the program ended with status ${status}. ${stderr.trim()}`)
  })
  await exit.promise
  return Buffer.concat(chunks).toString()
}
