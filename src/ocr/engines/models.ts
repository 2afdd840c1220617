/** Model files of Tesseract. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrModel, OcrSetup } from '../../ports/ocr-engine.ts'

/** Maximum size of an unpacked model. The largest existing ones have about 70 MB. */
const maxModelBytes = 256 * 1024 * 1024

/** Name of the model that detects orientation and script. It has no network. */
export const osdCode = 'osd'

export interface Models {
  /** Folder with the unpacked `<name>.traineddata` of every provided language. */
  readonly folder: string
  /**
   * Adds the models of `language` (codes joined by `+`) and returns their names, joined by `+`.
   * Throws ReadFailure OCR_LANGUAGE_MISSING, OCR_FAILED for a damaged model.
   */
  provide(language: string, model?: OcrModel): Promise<string>
  /** Returns whether every code of `language` has a second model. */
  hasSecond(language: string): boolean
  close(): Promise<void>
}

/** Opens a private folder of models below `parent`, because Tesseract takes all languages of a page from one folder. */
export async function openModels({ languages, secondModels, osd }: OcrSetup, parent: string): Promise<Models> {
  const folder = await mkdtemp(join(parent, 'tessdata-'))
  const provided = new Set<string>()
  return {
    folder,
    async provide(language, model = 'first') {
      const codes = language.split('+')
      const nameOf = (code: string): string => (model === 'first' ? code : `${code}-second`)
      for (const code of codes) {
        if (provided.has(nameOf(code))) continue
        const location = code === osdCode ? osd : (model === 'first' ? languages : secondModels).get(code)
        if (!location) throw new ReadFailure('OCR_LANGUAGE_MISSING', `The OCR language ${code} is not installed.`)
        const source = join(location.path, `${code}.traineddata${location.gzip ? '.gz' : ''}`)
        const content = await readModel(source, location.gzip, code === osdCode).catch((error: Error) => {
          throw new ReadFailure('OCR_FAILED', `The model ${source} cannot be read: ${error.message}`)
        })
        await writeFile(join(folder, `${nameOf(code)}.traineddata`), content)
        provided.add(nameOf(code))
      }
      return codes.map(nameOf).join('+')
    },
    hasSecond: (language) => language.split('+').every((code) => secondModels.has(code)),
    close: () => rm(folder, { recursive: true, force: true }),
  }
}

async function readModel(path: string, isGzip: boolean, isOsd: boolean): Promise<Buffer> {
  const file = await readFile(path)
  const model = isGzip ? await promisify(gunzip)(file, { maxOutputLength: maxModelBytes }) : file
  if (!isOsd && !hasNetwork(model)) throw new Error('it is damaged, or has no LSTM network')
  return model
}

/**
 * Returns whether the bytes have the layout of a model with an LSTM network: a count, then the offset of each part or -1.
 * Checked first, because some damaged models abort the whole process of Tesseract.
 */
function hasNetwork(model: Buffer): boolean {
  const networkPart = 17
  if (model.length < 4) return false
  const count = model.readInt32LE(0)
  const start = 4 + count * 8
  if (count <= networkPart || count > 64 || model.length < start) return false
  const offsets = Array.from({ length: count }, (_, part) => Number(model.readBigInt64LE(4 + part * 8)))
  return offsets[networkPart]! >= start && offsets.every((offset) => offset === -1 || (offset >= start && offset <= model.length))
}
