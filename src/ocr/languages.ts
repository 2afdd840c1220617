/** Installed OCR engines, languages and the names of languages. */
import { readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { ConfigError } from '../errors.ts'
import type { InstalledOcr, ModelFile, OcrQuality, OcrSetup } from '../ports/ocr-engine.ts'
import { osdCode } from './engines/models.ts'
import { findTesseract } from './tesseract-program.ts'

/** Folders in which Linux distributions install models. */
const systemFolders = ['/usr/share/tesseract-ocr/5/tessdata', '/usr/share/tesseract-ocr/4.00/tessdata', '/usr/share/tessdata']
/** Models that detect orientation or equations instead of text. */
const nonLanguages = new Set([osdCode, 'equ'])
/** Minimum time between two searches for models. A search takes half a millisecond. */
const refreshIntervalMs = 1000

interface OcrOptions {
  engine: 'auto' | OcrSetup['engine']
  /** folder of `<code>.traineddata` or `<code>.traineddata.gz` files of the administrator; may be missing */
  dataPath: string
  quality?: OcrQuality
}

/**
 * Finds the engine and the languages of this machine. `auto` prefers the tesseract program if it is installed.
 * The administrator's folder takes precedence over the system's, and this over npm packages. Throws ConfigError if the engine is not installed.
 */
export async function findOcr({ engine, dataPath, quality = 'balanced' }: OcrOptions): Promise<InstalledOcr> {
  const program = await findTesseract()
  if (engine === 'tesseract-native' && !program) {
    throw new ConfigError(['ocr.engine is "tesseract-native", but there is no tesseract program of version 4 or later on the PATH'])
  }
  const isNative = engine !== 'tesseract-js' && program !== null
  const find = () => findModels([dataPath, ...(program?.folders ?? []), ...systemFolders])
  let models = await find()
  let foundMs = performance.now()
  return {
    engine: isNative ? 'tesseract-native' : 'tesseract-js',
    command: isNative ? program.command : null,
    quality,
    get languages() {
      return models.languages
    },
    get secondModels() {
      return models.secondModels
    },
    get osd() {
      return models.osd
    },
    async refresh() {
      if (performance.now() - foundMs < refreshIntervalMs) return
      const found = await find()
      foundMs = performance.now()
      if (!isDeepStrictEqual(found, models)) models = found
    },
  }
}

/** Returns the models in the folders, and in npm packages. These are second models of languages with a model in the folders. */
async function findModels(folders: readonly string[]): Promise<Pick<OcrSetup, 'languages' | 'secondModels' | 'osd'>> {
  const installed = await listModels(folders)
  const packaged = await listModels(await npmFolders())
  const all = new Map([...packaged, ...installed])
  return {
    languages: new Map([...all].filter(([code]) => !nonLanguages.has(code))),
    secondModels: new Map([...packaged].filter(([code]) => installed.has(code) && !nonLanguages.has(code))),
    osd: all.get(osdCode) ?? null,
  }
}

/** Returns the models in the folders by their codes. The first folder with a code wins. */
async function listModels(folders: readonly string[]): Promise<Map<string, ModelFile>> {
  const models = new Map<string, ModelFile>()
  for (const folder of folders) {
    for (const name of await listNames(folder)) {
      const [, code, gz] = /^(\w+)\.traineddata(\.gz)?$/.exec(name) ?? []
      if (code && !models.has(code)) models.set(code, { path: resolve(folder), gzip: gz !== undefined })
    }
  }
  return models
}

/** Returns the model folders of all installed `@tesseract.js-data` packages. */
async function npmFolders(): Promise<string[]> {
  const packageFolders = createRequire(import.meta.url).resolve.paths('@tesseract.js-data/eng') ?? []
  const scopes = packageFolders.map((folder) => join(folder, '@tesseract.js-data'))
  const models = await Promise.all(scopes.map(async (scope) => (await listNames(scope)).map((code) => join(scope, code, '4.0.0_best_int'))))
  return models.flat()
}

/** Returns the sorted names in a folder; none if it cannot be read. */
const listNames = async (folder: string): Promise<string[]> => (await readdir(folder).catch(() => [])).sort()

/** Names of Tesseract codes that are not in ISO 639. */
const tesseractNames: Record<string, string> = {
  deu_latf: 'German (Fraktur)',
  frk: 'German (Fraktur)',
  enm: 'Middle English',
  frm: 'Middle French',
}
const scripts: Record<string, string> = { sim: 'Hans', tra: 'Hant', latn: 'Latn', cyrl: 'Cyrl' }
const suffixes: Record<string, string> = { old: ' (old)', vert: ' (vertical)', frak: ' (Fraktur)' }

/** Returns the English name of a Tesseract code, such as German for `deu` or Simplified Chinese for `chi_sim`. Unknown codes are returned unchanged. */
export function languageName(code: string): string {
  if (tesseractNames[code]) return tesseractNames[code]
  const [language = '', ...rest] = code.split('_')
  const tag = [language === 'chi' ? 'zho' : language, ...rest.flatMap((part) => scripts[part] ?? [])].join('-')
  const suffix = rest.map((part) => suffixes[part] ?? '').join('')
  try {
    return (new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' }).of(tag) ?? code) + suffix
  } catch {
    return code + suffix
  }
}
