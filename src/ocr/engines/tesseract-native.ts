import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { type OcrEngine, type OcrSetup, type PageImage, ReadFailure } from '../../ports.ts'
import { openModels } from './models.ts'
import { toPgm } from './pgm.ts'
import { readTsv } from './tsv.ts'

/** bytes of output that no page reaches */
const largestOutput = 32 * 1024 * 1024
const header = 'level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n'

/** The tesseract program of this machine, run once for each page. Private files go below `folder`. */
export async function openTesseractNative({ command, languages }: OcrSetup, folder = process.cwd()): Promise<OcrEngine> {
  const program = command ?? 'tesseract'
  const models = await openModels(languages, folder)
  let running: ChildProcessByStdio<Writable, Readable, Readable> | null = null

  async function run(page: PageImage, language: string): Promise<string> {
    const reading = ['-', '-', '--tessdata-dir', models.folder, '-l', language]
    const settings = ['--oem', '1', '--psm', '3', '--dpi', String(page.dpi), '-c', 'tessedit_create_tsv=1']
    // Without the limit Tesseract spins a thread on every core, which makes a page five times as dear.
    const env = { OMP_THREAD_LIMIT: '1', LC_ALL: 'C' }
    const child = spawn(program, [...reading, ...settings], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    running = child
    try {
      // A program that ends early breaks the pipe; its exit status says more.
      child.stdin.on('error', () => {})
      child.stdin.end(toPgm(page))
      return await output(child)
    } finally {
      running = null
    }
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
async function output(child: ChildProcessByStdio<Writable, Readable, Readable>): Promise<string> {
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
