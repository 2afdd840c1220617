import type { OcrEngine, OcrSetup } from '../../ports/ocr-engine.ts'

/** Every OCR engine by its name in the settings; opening one loads only its own packages. Opened inside a reader process, never in the server. */
export const engines = {
  'tesseract-js': async (setup, folder) => (await import('./tesseract-js.ts')).openTesseractJs(setup, folder),
  'tesseract-native': async (setup, folder) => (await import('./tesseract-native.ts')).openTesseractNative(setup, folder),
} satisfies Record<OcrSetup['engine'], (setup: OcrSetup, folder?: string) => Promise<OcrEngine>>
