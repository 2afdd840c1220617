/** The files that a command line means: paths, folders with everything below them, and lists of paths. */
import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join, matchesGlob, relative } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Failure, usage } from './exit.ts'

export interface FindOptions {
  /** folders may be given */
  readonly isRecursive: boolean
  /** follow symbolic links that are found inside folders; given ones are always followed */
  readonly followsLinks: boolean
  /** globs; one without "/" is about names, others about paths below the given folder */
  readonly include: readonly string[]
  readonly exclude: readonly string[]
}

export interface FoundFile {
  readonly path: string
  /** bytes; null for standard input */
  readonly size: number | null
  /** why it cannot be taken */
  readonly problem?: Error
}

/** Finds them in the order given, those of a folder sorted by name. What cannot be looked at is in the list with its problem. Throws Failure USAGE for a folder without `isRecursive`. */
export async function findFiles(paths: readonly string[], options: FindOptions): Promise<FoundFile[]> {
  const found: FoundFile[] = []
  for (const path of paths) {
    try {
      const about = await stat(path)
      if (about.isDirectory() && !options.isRecursive) throw usage(`${path} is a folder`, 'pass -r to upload what is in it')
      if (about.isDirectory()) await walk(path, path, options, new Set(), found)
      else if (!about.isFile()) throw new Error('neither a file nor a folder')
      else if (isWanted(basename(path), options)) found.push({ path, size: about.size })
    } catch (problem) {
      if (problem instanceof Failure) throw problem
      found.push({ path, size: null, problem: problem as Error })
    }
  }
  return found
}

/** Names that begin with a dot are passed over: half-written files, trash, version control. `above`: folders we are in, by their real path. */
async function walk(root: string, folder: string, options: FindOptions, above: ReadonlySet<string>, found: FoundFile[]): Promise<void> {
  const place = await realpath(folder)
  if (above.has(place)) return
  const inside = new Set([...above, place])
  const entries = await readdir(folder, { withFileTypes: true })
  for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
    const path = join(folder, entry.name)
    const below = relative(root, path)
    if (entry.name.startsWith('.') || (entry.isSymbolicLink() && !options.followsLinks)) continue
    try {
      const about = await stat(path)
      if (about.isDirectory() && !matches(below, options.exclude)) await walk(root, path, options, inside, found)
      if (about.isFile() && isWanted(below, options)) found.push({ path, size: about.size })
    } catch (problem) {
      found.push({ path, size: null, problem: problem as Error })
    }
  }
}

const isWanted = (path: string, { include, exclude }: FindOptions): boolean =>
  (include.length === 0 || matches(path, include)) && !matches(path, exclude)

const matches = (path: string, globs: readonly string[]): boolean =>
  globs.some((glob) => matchesGlob(glob.includes('/') ? path : basename(path), glob))

/** The paths in a file (or standard input, "-"), one a line, or ended by NUL as `find -print0` writes them. Throws Failure USAGE. */
export async function pathsFrom(file: string, isNulSeparated: boolean): Promise<string[]> {
  try {
    const content = (await (file === '-' ? buffer(process.stdin) : readFile(file))).toString('utf8')
    return content.split(isNulSeparated ? '\0' : /\r?\n/).filter((path) => path !== '')
  } catch (error) {
    throw usage(`--files-from: ${(error as Error).message}`)
  }
}
