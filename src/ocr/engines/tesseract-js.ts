/** OCR engine: Tesseract as WebAssembly, from npm. Works offline on every platform. */
import type { Worker as Thread } from 'node:worker_threads'
import { createWorker, OEM, type PSM } from 'tesseract.js'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrEngine, OcrLayout, OcrModel, OcrSetup, OcrText } from '../../ports/ocr-engine.ts'
import { openModels, osdCode } from './models.ts'
import { scriptCode, segmentationModes, tesseractVariables, toTiff } from './tesseract-input.ts'
import { parseTsv } from './tsv.ts'

/** Opens the engine. Its thread stays loaded between pages. Private files go below `folder`. */
export async function openTesseractJs(setup: OcrSetup, folder = process.cwd()): Promise<OcrEngine> {
  const models = await openModels(setup, folder)
  let worker: TesseractWorker | null = null
  let loadedNames = ''

  async function workerFor(language: string, model?: OcrModel): Promise<TesseractWorker> {
    const names = await models.provide(language, model)
    if (!worker) worker = await startWorker(names, models.folder)
    else if (loadedNames !== names) await worker.loadModels(names)
    loadedNames = names
    return worker
  }

  /** Drops a failed thread; the next page starts another. */
  function dropWorker(error: unknown): never {
    worker = null
    throw error
  }

  return {
    name: 'tesseract-js',
    async recognize(page, language, { layout, model }) {
      const ready = await workerFor(language, model).catch(dropWorker)
      return ready.recognize(toTiff(page), page.dpi, layout).catch(dropWorker)
    },
    hasSecondModel: models.hasSecond,
    async detectScript(page) {
      if (setup.osd === null) return null
      await models.provide(osdCode)
      // This detector needs the legacy engine, in another build of Tesseract of 100 MB. It is rarely used.
      const detector = await startWorker(osdCode, models.folder, OEM.TESSERACT_ONLY)
      return detector.detectScript(toTiff(page)).finally(() => detector.stop())
    },
    async close() {
      await worker?.stop()
      await models.close()
    },
  }
}

interface TesseractWorker {
  /** Replaces the loaded models by others in the folder, whose names are joined by `+`. */
  loadModels(names: string): Promise<void>
  recognize(image: Buffer, dpi: number, layout: OcrLayout): Promise<OcrText>
  detectScript(image: Buffer): Promise<string | null>
  stop(): Promise<void>
}

/**
 * Starts a thread of tesseract.js on the models in `folder`. Calls throw ReadFailure OCR_FAILED if the thread fails or ends. The library alone would
 * leave promises pending if a model is damaged or the thread dies, and throw in its message handler.
 */
async function startWorker(names: string, folder: string, mode = OEM.LSTM_ONLY): Promise<TesseractWorker> {
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => {})
  const orFailure = <T>(work: Promise<T>): Promise<T> => Promise.race([work, failure.promise])

  let thread: Thread | undefined
  // The library returns its thread only after the model was loaded, which is too late to stop it.
  process.once('worker', (started) => {
    thread = started.on('error', fail).on('exit', () => fail('its thread ended'))
  })
  const stop = async () => {
    thread?.removeAllListeners('message')
    await thread?.terminate()
  }
  function fail(reason: unknown): void {
    failure.reject(new ReadFailure('OCR_FAILED', `OCR failed: ${reason instanceof Error ? reason.message : reason}`))
    void stop()
  }

  const options = { langPath: folder, gzip: false, cacheMethod: 'none', errorHandler: fail }
  const worker = await orFailure(createWorker(names, mode, options))
  await orFailure(worker.setParameters(tesseractVariables))

  return {
    async loadModels(next) {
      await orFailure(worker.reinitialize(next, OEM.LSTM_ONLY))
      await orFailure(worker.setParameters(tesseractVariables))
    },
    async recognize(image, dpi, layout) {
      const mode = segmentationModes[layout] as PSM
      await orFailure(worker.setParameters({ user_defined_dpi: String(dpi), tessedit_pageseg_mode: mode }))
      const { data } = await orFailure(worker.recognize(image, {}, { text: false, tsv: true }))
      return parseTsv(data.tsv ?? '')
    },
    async detectScript(image) {
      // The library rejects pages with too little text.
      const result = await orFailure(worker.detect(image)).catch(() => null)
      return scriptCode(result?.data.script ?? undefined, result?.data.script_confidence ?? 0)
    },
    stop,
  }
}
