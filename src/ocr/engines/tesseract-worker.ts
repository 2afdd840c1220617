import type { Worker as Thread } from 'node:worker_threads'
import { createWorker, OEM, PSM, type Worker } from 'tesseract.js'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrText } from '../../ports/ocr-engine.ts'
import { settings } from './settings.ts'

/** milliseconds to load a model; it takes a quarter of a second */
const startLimit = 30_000

export interface TesseractWorker {
  /** Changes the language; its model must lie in the folder. */
  switchTo(language: string): Promise<void>
  /** Reads an image file. */
  read(image: Buffer, dpi: number): Promise<OcrText>
  stop(): Promise<void>
}

/**
 * Starts a thread of tesseract.js on the models in `folder`. Every call settles, with ReadFailure OCR_FAILED where it must, and a failed thread is gone:
 * the library itself leaves promises pending when a model is damaged or the thread dies, and throws out of its own message handler.
 */
export async function startTesseractWorker(language: string, folder: string): Promise<TesseractWorker> {
  const broken = Promise.withResolvers<never>()
  broken.promise.catch(() => {})
  const settled = <T>(work: Promise<T>): Promise<T> => Promise.race([work, broken.promise])

  let thread: Thread | undefined
  // The library hands out its thread only once a model is loaded, which is too late to end it.
  process.once('worker', (started) => {
    thread = started.on('error', fail).on('exit', () => fail('its thread ended'))
  })
  const stop = async () => {
    thread?.removeAllListeners('message')
    await thread?.terminate()
  }
  function fail(reason: unknown): void {
    broken.reject(new ReadFailure('OCR_FAILED', `OCR failed: ${reason instanceof Error ? reason.message : reason}`))
    void stop()
  }

  async function limited<T>(work: Promise<T>): Promise<T> {
    const timer = setTimeout(() => fail('the model did not load in time'), startLimit)
    return settled(work).finally(() => clearTimeout(timer))
  }
  const parameters = { ...settings, tessedit_pageseg_mode: PSM.AUTO }
  const options = { langPath: folder, gzip: false, cacheMethod: 'none', errorHandler: fail }
  const worker: Worker = await limited(createWorker(language, OEM.LSTM_ONLY, options))
  await settled(worker.setParameters(parameters))

  return {
    async switchTo(next) {
      await limited(worker.reinitialize(next, OEM.LSTM_ONLY))
      await settled(worker.setParameters(parameters))
    },
    async read(image, dpi) {
      await settled(worker.setParameters({ user_defined_dpi: String(dpi) }))
      // The mean of the words comes free; TSV, to weigh them by their letters, would cost a page three percent more.
      const { data } = await settled(worker.recognize(image))
      const text = data.text.trim().replace(/\n\s*\n/g, '\n\n')
      return { text, confidence: text === '' ? null : data.confidence / 100 }
    },
    stop,
  }
}
