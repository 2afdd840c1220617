/** A folder of this machine, below one of those that the administrator named. Links are not followed: they may lead out. */
import { type BigIntStats, constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, opendir, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type SourceAddress,
  type SourceBody,
  type SourceConnection,
  type SourceEntry,
  SourceFailure,
  type SourceFile,
  type SourceLimits,
  type SourceType,
} from '../../ports/source-type.ts'

/** Files that are looked at side by side. */
const together = 64
/** Bytes of one read. */
const pieceSize = 256 << 10
/** What a test shows of the folder. */
const sampleSize = 5

export const folder: SourceType = {
  open(address, limits) {
    const path = pathOf(address.url)
    if (!limits.localRoots.some((root) => isWithin(resolve(root), path))) throw forbidden()
    return connection(path, address, limits)
  },
}

function connection(given: string, { recursive }: SourceAddress, { localRoots }: SourceLimits): SourceConnection {
  let root: string | undefined
  return {
    async *walk({ signal }) {
      root = await rootOf(given, localRoots)
      const folders = ['']
      for (let path = folders.pop(); path !== undefined; path = folders.pop()) {
        try {
          yield* listed(root, path, recursive ? folders : null, signal)
          yield { kind: 'folder', path, etag: null, isPruned: false }
        } catch (error) {
          const { code, message } = failureOf(error)
          if (signal.aborted || path === '') throw signal.aborted ? signal.reason : failureOf(error)
          yield { kind: 'problem', path, code, message }
        }
      }
    },
    async read(file, signal) {
      try {
        root ??= await rootOf(given, localRoots)
        return await opened(root, file, signal)
      } catch (error) {
        throw failureOf(error)
      }
    },
    async test(signal) {
      const checks: { name: string; ok: boolean; message: string }[] = []
      const sample: string[] = []
      const step = async (name: string, message: string, run: () => Promise<unknown>): Promise<boolean> => {
        const failed = await run().then(
          () => null,
          (error) => failureOf(error).message,
        )
        checks.push({ name, ok: failed === null, message: failed ?? message })
        return failed === null
      }
      const look = async () => {
        for await (const entry of this.walk({ known: async () => null, signal })) {
          if (entry.kind === 'file') sample.push(entry.file.path)
          if (sample.length === sampleSize) return
        }
      }
      if (await step('folder', 'is there, and below one of sources.local_roots', () => rootOf(given, localRoots)))
        await step('listing', 'can be listed', look)
      return { checks, sample }
    },
    close: async () => {},
  }
}

/** An absolute path, or a file: URL of one. */
function pathOf(url: string): string {
  const path = url.startsWith('file:') && URL.canParse(url) ? fileOf(url) : url
  if (!isAbsolute(path) || hasControls(path)) throw new SourceFailure('SOURCE_ADDRESS_INVALID', 'not the absolute path of a folder')
  return resolve(path)
}

function fileOf(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    return ''
  }
}

/** The folder with all links on the way to it resolved: it must still be below one of the roots. */
async function rootOf(given: string, localRoots: readonly string[]): Promise<string> {
  const root = await realpath(given).catch((error) => {
    throw failureOf(error)
  })
  const roots = await Promise.all(localRoots.map((each) => realpath(each).catch(() => null)))
  if (!roots.some((each) => each !== null && isWithin(each, root))) throw forbidden()
  return root
}

const forbidden = () => new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'not below one of the folders in sources.local_roots')

function isWithin(root: string, path: string): boolean {
  const way = relative(root, path)
  return way === '' || !(way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way))
}

/** One folder's files; its folders are put on the pile. */
async function* listed(root: string, path: string, folders: string[] | null, signal: AbortSignal): AsyncGenerator<SourceEntry> {
  const full = join(root, path)
  // A folder that was exchanged for a link since its parent was listed.
  if ((await realpath(full)) !== full) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
  let some: Dirent<Buffer>[] = []
  const told = async (): Promise<SourceEntry[]> => {
    const entries = await Promise.all(some.map((entry) => entryOf(full, path, entry, folders)))
    some = []
    return entries.filter((entry) => entry !== null)
  }
  // Names are bytes on a disk, and not all bytes are text.
  for await (const entry of (await opendir(full, { encoding: 'buffer' as BufferEncoding })) as unknown as AsyncIterable<Dirent<Buffer>>) {
    signal.throwIfAborted()
    some.push(entry)
    if (some.length === together) yield* await told()
  }
  yield* await told()
}

async function entryOf(full: string, path: string, entry: Dirent<Buffer>, folders: string[] | null): Promise<SourceEntry | null> {
  const name = entry.name.toString()
  const inner = path === '' ? name : `${path}/${name}`
  if (!entry.isFile() && !entry.isDirectory()) return null
  if (!Buffer.from(name).equals(entry.name) || hasControls(name))
    return { kind: 'problem', path: inner, code: 'SOURCE_PROTOCOL', message: 'The name is not valid UTF-8, or holds control characters.' }
  if (entry.isDirectory()) {
    folders?.push(inner)
    return null
  }
  try {
    const found = await lstat(join(full, name), { bigint: true })
    return found.isFile() ? { kind: 'file', file: { path: inner, ...seen(found) } } : null
  } catch (error) {
    // Gone since the folder was listed.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    return { kind: 'problem', path: inner, code: failureOf(error).code, message: failureOf(error).message }
  }
}

/** Times in nanoseconds, and the time of change besides that of writing, which programs set as they like. */
const seen = ({ size, mtimeNs, ctimeNs, ino, mtimeMs }: BigIntStats): Omit<SourceFile, 'path'> => ({
  size: Number(size),
  etag: [mtimeNs, ctimeNs, size, ino].map((number) => number.toString(36)).join('-'),
  modifiedAt: new Date(Number(mtimeMs)),
})

async function opened(root: string, file: SourceFile, signal: AbortSignal): Promise<SourceBody> {
  const full = join(root, file.path)
  if (!isWithin(root, full)) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
  // Without waiting, should a pipe have taken the file's place.
  const handle = await open(full, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const found = await handle.stat({ bigint: true })
    // Looked at after the opening: a folder on the way may have been exchanged for a link.
    const [real, there] = [await realpath(full), await stat(full, { bigint: true })]
    if (real !== full || there.ino !== found.ino || there.dev !== found.dev || !found.isFile())
      throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'The file is a link, or lies behind one.')
    const { etag, modifiedAt } = seen(found)
    return { bytes: bytesOf(handle, Number(found.size), etag, signal), etag, modifiedAt }
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function* bytesOf(handle: FileHandle, size: number, etag: string | null, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for (let left = size; ; ) {
      signal.throwIfAborted()
      // One byte more than there should be: a piece that is not filled was the last one.
      const room = Math.min(pieceSize, Math.max(0, left) + 1)
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(room), 0, room)
      left -= bytesRead
      if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
      if (bytesRead < room) break
    }
    if (seen(await handle.stat({ bigint: true })).etag !== etag)
      throw new SourceFailure('CONTENT_MISMATCH', 'The file changed while it was read.', true)
  } catch (error) {
    throw signal.aborted ? signal.reason : failureOf(error)
  } finally {
    await handle.close()
  }
}

function failureOf(error: unknown): SourceFailure {
  if (error instanceof SourceFailure) return error
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new SourceFailure('SOURCE_NOT_FOUND_THERE', 'There is no such file or folder.')
    case 'EACCES':
    case 'EPERM':
      return new SourceFailure('SOURCE_FORBIDDEN', 'It may not be read by the user that dms runs as.')
    case 'ELOOP':
      return new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'The file is a link.')
    default:
      return new SourceFailure('SOURCE_UNREACHABLE', `It cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`, true)
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const hasControls = (text: string): boolean => /[\u0000-\u001f\u007f]/.test(text)
