import { readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { ConfigError } from '../errors.ts'
import type { OcrSetup } from '../ports/ocr-engine.ts'
import { findTesseract } from './tesseract-program.ts'

const require = createRequire(import.meta.url)

/** Where Linux distributions put models. */
const usualFolders = ['/usr/share/tesseract-ocr/5/tessdata', '/usr/share/tesseract-ocr/4.00/tessdata', '/usr/share/tessdata']
/** Models that tell script and orientation or find equations: nobody writes in them. */
const notLanguages = new Set(['osd', 'equ'])

export interface OcrOptions {
  engine: 'auto' | OcrSetup['engine']
  /** a folder of the admin's own `<code>.traineddata` or `<code>.traineddata.gz`; it need not exist */
  dataPath: string
}

/**
 * Finds the engine and the languages of this machine; `auto` takes the tesseract program where it is installed.
 * A language is taken from the admin's folder, else from the system, else from npm. Throws ConfigError where the wanted engine is not here.
 */
export async function findOcr({ engine, dataPath }: OcrOptions): Promise<OcrSetup> {
  const program = await findTesseract()
  if (engine === 'tesseract-native' && !program) {
    throw new ConfigError(['ocr.engine is "tesseract-native", but there is no tesseract program of version 4 or later on the PATH'])
  }
  const languages: Map<string, { path: string; gzip: boolean }> = new Map()
  for (const folder of [dataPath, ...(program?.folders ?? []), ...usualFolders, ...(await npmFolders())]) {
    for (const [code, gzip] of await modelsIn(folder)) {
      if (!languages.has(code)) languages.set(code, { path: resolve(folder), gzip })
    }
  }
  if (engine === 'tesseract-js' || !program) return { engine: 'tesseract-js', command: null, languages }
  return { engine: 'tesseract-native', command: program.command, languages }
}

/** One folder for each `@tesseract.js-data` package that npm has put within our reach. */
async function npmFolders(): Promise<string[]> {
  const scopes = (require.resolve.paths('@tesseract.js-data/eng') ?? []).map((folder) => join(folder, '@tesseract.js-data'))
  const packages = await Promise.all(scopes.map(async (scope) => (await names(scope)).map((code) => join(scope, code, '4.0.0_best_int'))))
  return packages.flat()
}

async function modelsIn(folder: string): Promise<[code: string, gzip: boolean][]> {
  const matches = (await names(folder)).map((name) => /^(\w+)\.traineddata(\.gz)?$/.exec(name))
  return matches.flatMap((match) => (match && !notLanguages.has(match[1]!) ? [[match[1]!, match[2] !== undefined]] : []))
}

const names = (folder: string): Promise<string[]> =>
  readdir(folder).then(
    (found) => found.sort(),
    () => [],
  )
