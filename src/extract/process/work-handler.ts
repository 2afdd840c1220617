/** Handles the works of a reader process, in its main thread. */
import { statSync, writeFileSync } from 'node:fs'
import sharp from 'sharp'
import type { LanguageChooser } from '../../ocr/auto-language/choose.ts'
import { withLanguages } from '../../ocr/auto-language/text-layers.ts'
import { engines } from '../../ocr/engines/registry.ts'
import { openPassBudget } from '../../ocr/pass-budget.ts'
import { type PreparedPage, prepareImage, type RecognizeOptions, recognizePage } from '../../ocr/recognize.ts'
import { type FileToRead, type Outline, type PageMark, ReadFailure, type ReadPage } from '../../ports/document-reader.ts'
import { autoLanguage, type OcrEngine } from '../../ports/ocr-engine.ts'
import { type OpenedFile, openFile, toReadFailure } from '../extract.ts'
import { fileSource } from '../opened-document.ts'
import { removeInvalidCharacters } from '../readers/decode.ts'
import { loadPdfium, type OpenPdfium } from '../readers/pdf/pdfium.ts'
import { joinTexts } from '../text-layer.ts'
import { readTexts } from './exchanged-files.ts'
import { type Answer, outputName, type Setup, type Work } from './messages.ts'

sharp.concurrency(1)
sharp.cache(false)

/**
 * Returns a function that runs one request at a time and never rejects. `leftMs` returns the rest of its time limit in milliseconds. Keeps the engines and the last file open between works.
 */
export function openWorkHandler({ limits, ocr, converters }: Setup): (work: Work, leftMs: () => number) => Promise<Answer> {
  let pdfium: Promise<OpenPdfium> | undefined
  let engine: Promise<OcrEngine> | undefined
  let chooser: LanguageChooser | undefined
  let last: { key: string; opened: OpenedFile } | undefined
  let leftMsOfWork = () => 0
  const tools = {
    limits,
    converters,
    now: () => -leftMsOfWork(),
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

  async function readPage(opened: OpenedFile, number: number, language: string, leftMs: () => number): Promise<ReadPage> {
    const picture = await opened.picture(number)
    if (!picture) return { text: '', confidence: null, words: [], language: null, angle: 0, isIncomplete: false, width: null, height: null }
    if (!ocr) throw new ReadFailure('OCR_FAILED', 'There is no OCR engine.')
    engine ??= engines[ocr.engine](ocr, process.cwd())
    const { gray, width, height, dpi } = picture
    const image = await prepareImage({ gray, width, height, dpi })
    const budget = openPassBudget(leftMs)
    const { text, words, ...rest } = await recognizeIn(language, await engine, image, { quality: ocr.quality, budget })
    const joined = picture.isTrusted ? joinTexts(picture.text, text) : text || picture.text
    const validWords = words.map((word) => ({ ...word, text: removeInvalidCharacters(word.text) }))
    return { ...rest, text: removeInvalidCharacters(joined), words: validWords, isIncomplete: budget.isExceeded, ...picture.page }
  }

  async function readMarks(opened: OpenedFile, { pages, ...options }: Extract<Work, { kind: 'marks' }>): Promise<PageMark[]> {
    const { markPage } = await import('../split/page-marks.ts')
    const marks: PageMark[] = []
    for (const page of pages) marks.push(await markPage(opened, page, options))
    return marks
  }

  async function makePdfa(opened: OpenedFile, { texts, info }: Extract<Work, { kind: 'pdfa' }>): Promise<Uint8Array> {
    if (!opened.pdfa) throw new ReadFailure('NOT_CONVERTIBLE', `Files of the type ${opened.mimeType} have no pages to convert to PDF/A.`)
    return opened.pdfa(await readTexts(texts), info)
  }

  async function recognizeIn(language: string, engine: OcrEngine, image: PreparedPage, options: RecognizeOptions) {
    const recognize = async (codes: string) => ({ ...(await recognizePage(engine, image, codes, options)), language: codes })
    if (language !== autoLanguage) return recognize(language)
    chooser ??= (await import('../../ocr/auto-language/choose.ts')).openLanguageChooser(engine, ocr?.languages ?? new Map())
    return chooser.recognize(image, recognize, options.budget)
  }

  async function readOutline(opened: OpenedFile) {
    const { pages, ...rest } = await opened.contents()
    const languages = ocr?.languages ?? new Map()
    const { mimeType, hasReader, missingPackage } = opened
    return { mimeType, hasReader, ...(missingPackage && { missingPackage }), ...rest, pages: await withLanguages(pages, languages) }
  }

  async function readOutlines(files: readonly FileToRead[]): Promise<(Outline | null)[]> {
    const outlines: (Outline | null)[] = []
    for (const file of files)
      outlines.push(
        await open(file)
          .then(readOutline)
          .catch(() => null),
      )
    return outlines
  }

  async function handle(work: Work, leftMs: () => number): Promise<Answer> {
    if (work.kind === 'outlines') return { outlines: await readOutlines(work.files) }
    const opened = await open(work.file)
    switch (work.kind) {
      case 'outline':
        return { outline: await readOutline(opened) }
      case 'page':
        return { page: await readPage(opened, work.page, work.language, leftMs) }
      case 'thumbnail':
        return { thumbnail: await opened.thumbnail(work.box, work.type, work.page) }
      case 'words':
        return { words: (await opened.words?.(work.page)) ?? [] }
      case 'pdfa':
        writeFileSync(outputName, await makePdfa(opened, work))
        return { pdfa: true }
      case 'marks':
        return { marks: await readMarks(opened, work) }
      case 'part':
        if (!opened.copyPages) throw new ReadFailure('FILE_CORRUPT', `Pages of ${opened.mimeType} cannot be copied.`)
        writeFileSync(outputName, await opened.copyPages(work.pages))
        return { part: true }
    }
  }
  return (work, leftMs) => {
    leftMsOfWork = leftMs
    return handle(work, leftMs).catch((problem) => {
      const { code, message, isRetryable } = toReadFailure(problem)
      return { failure: { code, message, isRetryable } }
    })
  }
}
