/** Files to upload: paths, folders and lists of paths. */
import { isUtf8 } from 'node:buffer'
import type { BigIntStats } from 'node:fs'
import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join, relative, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { compileGlobs, type GlobMatcher } from '../../sources/globs.ts'
import { Failure, usage } from '../runtime/exit.ts'

export interface FindOptions {
  /** accept folders */
  readonly isRecursive: boolean
  /** follow symbolic links inside folders; links given as arguments are always followed */
  readonly shouldFollowLinks: boolean
  /** globs; without "/" they match names, otherwise paths relative to the folder */
  readonly include: readonly string[]
  readonly exclude: readonly string[]
}

export interface FoundFile {
  readonly path: string
  /** path relative to the given folder; the name of a file given itself */
  readonly relativePath: string
  /** bytes; null for standard input */
  readonly size: number | null
  /** modification time in nanoseconds since 1970, as decimal digits */
  readonly mtimeNs: string
  /** status change time, likewise: programs such as `cp -p` set the modification time, and none can set this one */
  readonly ctimeNs: string
  /** number of the inode, as decimal digits */
  readonly inode: string
  /** when it last changed, in ms since 1970: the modification time, or that of the entry if the former is in the future */
  readonly changedMs: number
  /** why the file cannot be uploaded */
  readonly error?: Error
}

/** The stats of standard input and of files that cannot be read. */
export const unknownStats = { size: null, mtimeNs: '0', ctimeNs: '0', inode: '0', changedMs: 0 } as const

interface Search {
  readonly options: FindOptions
  /** matches files to upload */
  readonly files: GlobMatcher
  /** matches folders to walk */
  readonly folders: GlobMatcher
  readonly results: FoundFile[]
}

/**
 * Finds files in the given order, each once. Sorts the files of a folder by name. Lists unreadable files with their error. Throws Failure USAGE for a folder
 * without `isRecursive` and for an invalid glob.
 */
export async function findFiles(paths: readonly string[], options: FindOptions): Promise<FoundFile[]> {
  const { include, exclude } = options
  const excluded = exclude.map((glob) => `!${glob}`)
  const search: Search = { options, files: compile([...include, ...excluded]), folders: compile(excluded), results: [] }
  for (const path of paths) {
    try {
      const stats = await stat(path, { bigint: true })
      if (stats.isDirectory() && !options.isRecursive) throw usage(`${path} is a folder`, 'pass -r to upload its files')
      if (stats.isDirectory()) await walk(path, path, search, new Set())
      else if (!stats.isFile()) throw new Error('neither a file nor a folder')
      else addFile(path, basename(path), stats, search)
    } catch (error) {
      if (error instanceof Failure) throw error
      search.results.push({ ...unknownStats, path, relativePath: basename(path), error: error as Error })
    }
  }
  // Several names that are not valid UTF-8 can have the same text.
  const once = Map.groupBy(search.results, (file) => (file.error ? file : resolve(file.path)))
  return [...once.values()].flatMap(([file]) => file ?? [])
}

function compile(globs: readonly string[]): GlobMatcher {
  try {
    return compileGlobs(globs, { isCaseSensitive: true })
  } catch (error) {
    throw usage(`--include, --exclude: ${(error as Error).message}`)
  }
}

/** Walks a folder. Skips names that begin with a dot: partial files, trash, version control. `parents`: real paths, against link cycles. */
async function walk(root: string, folder: string, search: Search, parents: ReadonlySet<string>): Promise<void> {
  const realFolder = await realpath(folder)
  if (parents.has(realFolder)) return
  const chain = new Set([...parents, realFolder])
  // Names are bytes, and not always valid UTF-8.
  const found = await readdir(folder, { withFileTypes: true, encoding: 'buffer' })
  const entries = found.map((entry) => ({ entry, name: entry.name.toString() }))
  for (const { entry, name } of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
    const path = join(folder, name)
    const relativePath = relative(root, path)
    if (name.startsWith('.') || (entry.isSymbolicLink() && !search.options.shouldFollowLinks)) continue
    try {
      if (!isUtf8(entry.name)) throw new Error('the name is not valid UTF-8: rename the file')
      const stats = await stat(path, { bigint: true })
      if (stats.isDirectory() && search.folders.matches(relativePath)) await walk(root, path, search, chain)
      if (stats.isFile()) addFile(path, relativePath, stats, search)
    } catch (error) {
      search.results.push({ ...unknownStats, path, relativePath, error: error as Error })
    }
  }
}

function addFile(path: string, relativePath: string, stats: BigIntStats, { files, results }: Search): void {
  if (!files.matches(relativePath)) return
  const { size, mtimeNs, mtimeMs, ctimeNs, ctimeMs, ino } = stats
  const changedMs = Number(mtimeMs > Date.now() ? ctimeMs : mtimeMs)
  results.push({ path, relativePath, size: Number(size), mtimeNs: `${mtimeNs}`, ctimeNs: `${ctimeNs}`, inode: `${ino}`, changedMs })
}

/** Reads paths from a file or standard input ("-"). They are separated by line breaks or by NUL (`find -print0`). Throws Failure USAGE. */
export async function readPathList(file: string, isNulSeparated: boolean): Promise<string[]> {
  try {
    const content = (await (file === '-' ? buffer(process.stdin) : readFile(file))).toString('utf8')
    return content.split(isNulSeparated ? '\0' : /\r?\n/).filter((path) => path !== '')
  } catch (error) {
    throw usage(`--files-from: ${(error as Error).message}`)
  }
}
