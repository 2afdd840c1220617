import type { OcrEngine, OcrSetup } from '../../ports/ocr-engine.ts'
import { openModels } from './models.ts'
import { startTesseractWorker, type TesseractWorker } from './tesseract-worker.ts'
import { toTiff } from './tiff.ts'

/** Tesseract as WebAssembly, brought along by npm: works everywhere, offline. Its thread stays warm between pages. Private files go below `folder`. */
export async function openTesseractJs({ languages }: OcrSetup, folder = process.cwd()): Promise<OcrEngine> {
  const models = await openModels(languages, folder)
  let worker: TesseractWorker | null = null
  let loaded = ''

  async function workerFor(language: string): Promise<TesseractWorker> {
    await models.provide(language)
    if (!worker) worker = await startTesseractWorker(language, models.folder)
    else if (loaded !== language) await worker.switchTo(language)
    loaded = language
    return worker
  }

  return {
    name: 'tesseract-js',
    async recognize(page, language) {
      const ready = await workerFor(language).catch(forget)
      return ready.read(toTiff(page), page.dpi).catch(forget)
    },
    async close() {
      await worker?.stop()
      await models.close()
    },
  }

  /** A thread that failed is gone; the next page starts another. */
  function forget(error: unknown): never {
    worker = null
    throw error
  }
}
