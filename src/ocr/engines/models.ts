import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { OcrSetup } from '../../ports/ocr-engine.ts'

const unzip = promisify(gunzip)

/** bytes; the largest models that exist unpack to about 70 MB */
const largestModel = 256 * 1024 * 1024

export interface Models {
  /** holds `<code>.traineddata`, unpacked, of every language provided so far */
  readonly folder: string
  /** Puts the models of `language` (codes joined by `+`) there. Throws ReadFailure OCR_LANGUAGE_MISSING, or OCR_FAILED where a model is damaged. */
  provide(language: string): Promise<void>
  close(): Promise<void>
}

/** Gathers models from wherever they are installed in one private folder below `parent`, because Tesseract takes all languages of a page from one. */
export async function openModels(languages: OcrSetup['languages'], parent: string): Promise<Models> {
  const folder = await mkdtemp(join(parent, 'tessdata-'))
  const provided = new Set<string>()

  async function provideOne(code: string): Promise<void> {
    if (provided.has(code)) return
    const found = languages.get(code)
    if (!found) throw new ReadFailure('OCR_LANGUAGE_MISSING', `The OCR language ${code} is not installed.`)
    const source = join(found.path, `${code}.traineddata${found.gzip ? '.gz' : ''}`)
    const target = join(folder, `${code}.traineddata`)
    const model = await readModel(source, found.gzip).catch((error: Error) => {
      throw new ReadFailure('OCR_FAILED', `The model ${source} cannot be read: ${error.message}`)
    })
    await writeFile(target, model)
    provided.add(code)
  }

  return {
    folder,
    async provide(language) {
      for (const code of language.split('+')) await provideOne(code)
    },
    close: () => rm(folder, { recursive: true, force: true }),
  }
}

async function readModel(path: string, gzip: boolean): Promise<Buffer> {
  const file = await readFile(path)
  const model = gzip ? await unzip(file, { maxOutputLength: largestModel }) : file
  if (!hasNetwork(model)) throw new Error('it is damaged, or has no LSTM network')
  return model
}

/**
 * Whether these bytes are laid out as a model with an LSTM network: a count, then the offset of each part or -1.
 * Asked first, because Tesseract ends its whole process over some damaged models.
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
