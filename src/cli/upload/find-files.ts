/** Files to upload: paths, folders and lists of paths. */
import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { buffer } from 'node:stream/consumers'
import picomatch from 'picomatch'
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
  /** why the file cannot be uploaded */
  readonly error?: Error
}

type PathTest = (relativePath: string) => boolean

interface Search {
  readonly options: FindOptions
  readonly isIncluded: PathTest
  readonly isExcluded: PathTest
  readonly found: FoundFile[]
}

/** Finds files in the given order, those of a folder sorted by name. Unreadable files are listed with their error. Throws Failure USAGE for a folder without `isRecursive`. */
export async function findFiles(paths: readonly string[], options: FindOptions): Promise<FoundFile[]> {
  const { include, exclude } = options
  const search: Search = {
    options,
    isIncluded: include.length === 0 ? () => true : compileGlobs(include),
    isExcluded: compileGlobs(exclude),
    found: [],
  }
  for (const path of paths) {
    try {
      const about = await stat(path)
      if (about.isDirectory() && !options.isRecursive) throw usage(`${path} is a folder`, 'pass -r to upload what is in it')
      if (about.isDirectory()) await walk(path, path, search, new Set())
      else if (!about.isFile()) throw new Error('neither a file nor a folder')
      else await addFile(path, basename(path), search)
    } catch (problem) {
      if (problem instanceof Failure) throw problem
      search.found.push({ path, relativePath: basename(path), size: null, mtimeNs: '0', error: problem as Error })
    }
  }
  return search.found
}

/** Skips names that begin with a dot: partial files, trash, version control. `above`: real paths of the parent folders, against link cycles. */
async function walk(root: string, folder: string, search: Search, above: ReadonlySet<string>): Promise<void> {
  const place = await realpath(folder)
  if (above.has(place)) return
  const inside = new Set([...above, place])
  const entries = await readdir(folder, { withFileTypes: true })
  for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
    const path = join(folder, entry.name)
    const relativePath = relative(root, path)
    if (entry.name.startsWith('.') || (entry.isSymbolicLink() && !search.options.shouldFollowLinks)) continue
    try {
      const about = await stat(path)
      if (about.isDirectory() && !search.isExcluded(relativePath)) await walk(root, path, search, inside)
      if (about.isFile()) await addFile(path, relativePath, search)
    } catch (problem) {
      search.found.push({ path, relativePath, size: null, mtimeNs: '0', error: problem as Error })
    }
  }
}

async function addFile(path: string, relativePath: string, { isIncluded, isExcluded, found }: Search): Promise<void> {
  if (!isIncluded(relativePath) || isExcluded(relativePath)) return
  const { size, mtimeNs } = await stat(path, { bigint: true })
  found.push({ path, relativePath, size: Number(size), mtimeNs: String(mtimeNs) })
}

function compileGlobs(globs: readonly string[]): PathTest {
  const tests = globs.map((glob) => ({ isPath: glob.includes('/'), test: picomatch(glob) }))
  return (relativePath) => tests.some(({ isPath, test }) => test(isPath ? relativePath : basename(relativePath)))
}

/** Reads paths from a file or standard input ("-"), one per line, or NUL-separated as `find -print0` writes them. Throws Failure USAGE. */
export async function readPathList(file: string, isNulSeparated: boolean): Promise<string[]> {
  try {
    const content = (await (file === '-' ? buffer(process.stdin) : readFile(file))).toString('utf8')
    return content.split(isNulSeparated ? '\0' : /\r?\n/).filter((path) => path !== '')
  } catch (error) {
    throw usage(`--files-from: ${(error as Error).message}`)
  }
}
