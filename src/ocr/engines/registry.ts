import type { OcrEngine, OcrSetup } from '../../ports/ocr-engine.ts'

/** OCR engines by their name in the settings. Reader processes open them; the server never does. */
export const engines = {
  'tesseract-js': async (setup, folder) => (await import('./tesseract-js.ts')).openTesseractJs(setup, folder),
  'tesseract-native': async (setup, folder) => (await import('./tesseract-native.ts')).openTesseractNative(setup, folder),
} satisfies Record<OcrSetup['engine'], (setup: OcrSetup, folder?: string) => Promise<OcrEngine>>
