/** The program in a reader process: reads what the server asks for, one piece of work at a time. */
import { statSync } from 'node:fs'
import { setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import sharp from 'sharp'
import { engines } from '../ocr/engines/all.ts'
import { prepare } from '../ocr/prepare.ts'
import { recognizePage } from '../ocr/recognize.ts'
import type { OcrEngine } from '../ports/ocr.ts'
import { type FileToRead, ReadFailure, type ReadPage } from '../ports/reading.ts'
import { clean } from './decode.ts'
import { asFailure, type OpenedFile, openFile } from './extract.ts'
import type { Answer, Setup, Work } from './messages.ts'
import { fileSource } from './opened.ts'
import { joinTexts } from './page-text.ts'
import { loadPdfium, type OpenPictures } from './pdfium.ts'

/** Lower than the server's, so that reading never makes users wait. */
const niceness = 10

setPriority(niceness)
sharp.concurrency(1)
sharp.cache(false)
const watchdog = new URL(`./watchdog${extname(fileURLToPath(import.meta.url))}`, import.meta.url)
new Worker(watchdog, { workerData: { parent: process.ppid } }).unref()
// The group holds the programs that this process started.
process.on('disconnect', () => process.kill(-process.pid, 'SIGKILL'))
process.once('message', (setup: Setup) => {
  const work = openWorkshop(setup)
  process.on('message', async (message: Work) => process.send?.(await work(message).catch(refusal)))
})

function refusal(problem: unknown): Answer {
  const { code, message, retry } = asFailure(problem)
  return { failure: { code, message, retry } }
}

/** Keeps what is costly to open: the engines, and the file of the last work. */
function openWorkshop({ limits, ocr }: Setup): (work: Work) => Promise<Answer> {
  let pdfium: Promise<OpenPictures> | undefined
  let engine: Promise<OcrEngine> | undefined
  let last: { key: string; opened: OpenedFile } | undefined
  const tools = {
    limits,
    pdfium: () => {
      pdfium ??= loadPdfium()
      return pdfium
    },
    dropPdfium: () => {
      pdfium = undefined
    },
  }

  async function open({ path, filename }: FileToRead): Promise<OpenedFile> {
    const { mtimeMs, size } = statSync(path)
    const key = `${path}\0${filename}\0${mtimeMs}\0${size}`
    if (last?.key === key) return last.opened
    last?.opened.close()
    last = undefined
    const opened = await openFile(fileSource(path, filename), tools)
    last = { key, opened }
    return opened
  }

  function openedEngine(): Promise<OcrEngine> {
    if (!ocr) throw new ReadFailure('OCR_FAILED', 'There is no OCR engine.')
    engine ??= engines[ocr.engine](ocr, process.cwd())
    return engine
  }

  async function readPage(opened: OpenedFile, number: number, language: string): Promise<ReadPage> {
    const picture = await opened.picture(number)
    if (!picture) return { text: '', confidence: null, width: null, height: null }
    const { gray, width, height, dpi } = picture
    const { text, confidence } = await recognizePage(await openedEngine(), prepare({ gray, width, height, dpi }), language)
    const whole = picture.trusted ? joinTexts(picture.text, text) : text || picture.text
    return { text: clean(whole), confidence, ...picture.page }
  }

  return async (work) => {
    const opened = await open(work.file)
    if (work.kind === 'outline') return { outline: { mimeType: opened.mimeType, ...(await opened.contents()) } }
    if (work.kind === 'page') return { page: await readPage(opened, work.page, work.language) }
    return { thumbnail: await opened.thumbnail(work.box, work.type) }
  }
}
