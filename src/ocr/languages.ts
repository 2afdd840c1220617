import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ConfigError } from '../errors.ts'
import type { OcrSetup } from '../ports.ts'

const run = promisify(execFile)
const { resolve } = createRequire(import.meta.url)

/** Models that tell script and orientation or find equations: nobody writes in them. */
const notLanguages = new Set(['osd', 'equ'])

export interface OcrOptions {
  engine: 'auto' | OcrSetup['engine']
  /** a folder of the admin's own `<code>.traineddata` or `<code>.traineddata.gz`; '' for none */
  dataPath: string
}

/**
 * Finds the engine and the languages of this machine; `auto` takes the tesseract program where it is installed.
 * A language is taken from the admin's folder, else from the system, else from npm. Throws ConfigError where the wanted engine is not here.
 */
export async function findOcr({ engine, dataPath }: OcrOptions): Promise<OcrSetup> {
  const program = await findProgram()
  if (engine === 'tesseract-native' && !program) {
    throw new ConfigError(['ocr.engine is "tesseract-native", but there is no tesseract program of version 4 or later on the PATH.'])
  }
  const command = engine === 'tesseract-js' ? null : (program?.command ?? null)
  const languages: Map<string, { path: string; gzip: boolean }> = new Map()
  for (const folder of [dataPath, ...systemFolders(program), ...(await npmFolders())]) {
    if (folder === '') continue
    for (const [code, gzip] of await modelsIn(folder)) {
      if (!languages.has(code)) languages.set(code, { path: folder, gzip })
    }
  }
  return { engine: command ? 'tesseract-native' : 'tesseract-js', command, languages }
}

/** The codes of `language` (joined by `+`) that are not installed; [] where all is well. */
export const missingLanguages = ({ languages }: OcrSetup, language: string): string[] =>
  language.split('+').filter((code) => !languages.has(code))

interface Program {
  command: string
  /** where it keeps its models; null where it does not say */
  folder: string | null
}

async function findProgram(): Promise<Program | null> {
  try {
    const found = await run('sh', ['-c', 'command -v tesseract'])
    const command = found.stdout.trim()
    const version = await run(command, ['--version'], { timeout: 10_000 })
    const major = /tesseract v?(\d+)/.exec(version.stdout + version.stderr)?.[1]
    if (Number(major ?? 0) < 4) return null
    const list = await run(command, ['--list-langs'], { env: { LC_ALL: 'C' }, timeout: 10_000 })
    return { command, folder: /^List of .* in "(.+)"/m.exec(list.stdout + list.stderr)?.[1] ?? null }
  } catch {
    return null
  }
}

function systemFolders(program: Program | null): string[] {
  const beside = program ? [join(dirname(program.command), '../share/tessdata')] : []
  const usual = ['/usr/share/tesseract-ocr/5/tessdata', '/usr/share/tesseract-ocr/4.00/tessdata', '/usr/share/tessdata']
  return [program?.folder ?? '', ...beside, ...usual]
}

/** One folder for each `@tesseract.js-data` package that npm has put within our reach. */
async function npmFolders(): Promise<string[]> {
  const scopes = (resolve.paths('@tesseract.js-data/eng') ?? []).map((folder) => join(folder, '@tesseract.js-data'))
  const packages = await Promise.all(scopes.map(async (scope) => (await listing(scope)).map((code) => join(scope, code, '4.0.0_best_int'))))
  return packages.flat()
}

async function modelsIn(folder: string): Promise<[code: string, gzip: boolean][]> {
  const matches = (await listing(folder)).map((name) => /^(\w+)\.traineddata(\.gz)?$/.exec(name))
  return matches.flatMap((match) =>
    match && !notLanguages.has(match[1]!) ? [[match[1]!, match[2] !== undefined] as [string, boolean]] : [],
  )
}

const listing = (folder: string): Promise<string[]> =>
  readdir(folder).then(
    (names) => names.sort(),
    () => [],
  )
