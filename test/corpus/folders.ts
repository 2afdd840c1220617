/** The collections: their documents, languages, and minimum recall. */
import { readdir } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { makeLanguages, withoutModel } from './made-languages.ts'
import { makePages } from './made-pages.ts'

export interface Folder {
  readonly name: string
  readonly language: string
  /** languages of single files by name */
  readonly languages?: Readonly<Record<string, string>>
  /** files that describe the documents and are no documents, besides licences */
  readonly notDocuments?: RegExp
  /** minimum share of recognized words of all pages with a ground truth, and of each page; undefined without ground truth */
  readonly recall?: { readonly all: number; readonly each: number }
  /** creates a generated collection in an empty folder */
  readonly make?: (folder: string) => Promise<void>
  /** files that may end with the warning `language_missing` instead of a text */
  readonly withoutModel?: readonly string[]
  /** minimum share of files with a ground truth that a query of three rare words returns among the first three results */
  readonly rareWords?: number
  /** pages that may stay below the minimum, with the reason */
  readonly hard?: Readonly<Record<string, string>>
}

export const folders: readonly Folder[] = [
  { name: 'made-pages', language: 'eng', notDocuments: /\.txt$/, recall: { all: 0.98, each: 0.9 }, make: makePages },
  {
    name: 'made-languages',
    make: makeLanguages,
    withoutModel,
    language: 'auto',
    notDocuments: /\.txt$/,
    recall: { all: 0.98, each: 0.96 },
    rareWords: 0.95,
  },
  {
    name: 'ocr-gold',
    language: 'eng',
    languages: { 'eurotext.tif': 'eng+deu+fra+ita+spa+por' },
    notDocuments: /\.(txt|uzn)$/,
    recall: { all: 0.96, each: 0.9 },
    rareWords: 0.95,
  },
  { name: 'ocr-scans', language: 'eng', languages: { 'francais.pdf': 'fra' }, notDocuments: /\.txt$/, recall: { all: 0.95, each: 0.9 } },
  { name: 'pdf-samples', language: 'eng' },
  { name: 'pdf-broken', language: 'eng' },
  { name: 'exif-office', language: 'eng' },
  { name: 'office-mail', language: 'eng' },
  {
    name: 'ocr-french',
    language: 'fra',
    notDocuments: /\.(txt|xml)$/,
    recall: { all: 0.93, each: 0.6 },
    rareWords: 0.95,
    hard: { '16_7e494_default.jpg': 'a title of six words in letter-spaced capitals' },
  },
]

const aboutFolders = /(^|\/)(LICENSES?|README|REUSE)([./]|$)/i

/** Returns the documents of a folder, as sorted relative paths. */
export async function documentsOf(root: string, { name, notDocuments }: Folder): Promise<string[]> {
  const folder = join(root, name)
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !aboutFolders.test(path) && !notDocuments?.test(path))
    .sort()
}

/** Chooses `count` of the paths, evenly from each kind and some with a ground truth. */
export function sampleOf(paths: readonly string[], count: number, hasTruth: (path: string) => boolean): string[] {
  const groups = [...Map.groupBy(paths, (path) => `${hasTruth(path)} ${extname(path).toLowerCase()}`).values()]
  const rounds = Math.ceil(count / groups.length)
  const spread = groups.map((group) => Array.from({ length: rounds }, (_, round) => group[Math.floor((round * group.length) / rounds)]))
  const mixed = Array.from({ length: rounds }, (_, round) => spread.map((group) => group[round])).flat()
  return [...new Set(mixed)].filter((path) => path !== undefined).slice(0, count)
}
