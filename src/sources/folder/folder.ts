/** Source type for a directory of this machine below one of sources.local_roots. Does not follow symbolic links, which could leave the directory. */
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
import { startConnectionChecks } from '../connection-checks.ts'
import { isStorableTime } from '../http/responses.ts'

/** Files examined concurrently. */
const statBatchSize = 64
/** Size of one read. */
const readBytes = 256 << 10

export const folder: SourceType = {
  open(address, limits) {
    const path = parseFolderPath(address.url)
    if (!limits.localRoots.some((root) => isWithin(resolve(root), path))) throw forbidden()
    return openFolder(path, address, limits)
  },
}

function openFolder(configuredPath: string, { recursive }: SourceAddress, { localRoots }: SourceLimits): SourceConnection {
  let root: string | undefined
  return {
    async *walk({ signal }) {
      root = await resolveRoot(configuredPath, localRoots)
      const folders = ['']
      for (let path = folders.pop(); path !== undefined; path = folders.pop()) {
        try {
          yield* listFolder(root, path, recursive ? folders : null, signal)
          yield { kind: 'folder', path, etag: null, isPruned: false }
        } catch (error) {
          const { code, message } = toSourceFailure(error)
          if (signal.aborted || path === '') throw signal.aborted ? signal.reason : toSourceFailure(error)
          yield { kind: 'problem', path, code, message }
        }
      }
    },
    async read(file, signal) {
      try {
        root ??= await resolveRoot(configuredPath, localRoots)
        return await openFile(root, file, signal)
      } catch (error) {
        throw toSourceFailure(error)
      }
    },
    async test(signal) {
      const { result, run, collectSample } = startConnectionChecks(toSourceFailure)
      if (await run('folder', 'exists, and is below one of sources.local_roots', () => resolveRoot(configuredPath, localRoots)))
        await run('listing', 'can be listed', () => collectSample(this.walk, signal))
      return result
    },
    close: async () => {},
  }
}

/** Parses an absolute path or a file: URL. */
function parseFolderPath(url: string): string {
  const path = url.startsWith('file:') && URL.canParse(url) ? parseFileUrl(url) : url
  if (!isAbsolute(path) || hasControlCharacters(path))
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', 'not the absolute path of a folder')
  return resolve(path)
}

function parseFileUrl(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    return ''
  }
}

/** Resolves symbolic links of the directory. The result must still be below one of the roots. */
async function resolveRoot(configuredPath: string, localRoots: readonly string[]): Promise<string> {
  const root = await realpath(configuredPath).catch((error) => {
    throw toSourceFailure(error)
  })
  const roots = await Promise.all(localRoots.map((each) => realpath(each).catch(() => null)))
  if (!roots.some((each) => each !== null && isWithin(each, root))) throw forbidden()
  return root
}

const forbidden = () => new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'not below one of the folders in sources.local_roots')

function isWithin(root: string, path: string): boolean {
  const relativePath = relative(root, path)
  return relativePath === '' || !(relativePath === '..' || relativePath.startsWith(`..${sep}`) || isAbsolute(relativePath))
}

/** Lists the files of one directory and adds its subdirectories to `folders`. Throws SourceFailure if another directory takes its place meanwhile. */
async function* listFolder(root: string, path: string, folders: string[] | null, signal: AbortSignal): AsyncGenerator<SourceEntry> {
  const full = join(root, path)
  // The directory may have been replaced by a link since its parent was listed.
  if ((await realpath(full)) !== full) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
  const { dev, ino } = await stat(full, { bigint: true })
  let batch: Dirent<Buffer>[] = []
  let hasVanished = false
  const onVanished = () => {
    hasVanished = true
  }
  const statBatch = async (): Promise<SourceEntry[]> => {
    const entries = await Promise.all(batch.map((entry) => toEntry(full, path, entry, { folders, onVanished })))
    batch = []
    return entries.filter((entry) => entry !== null)
  }
  // File names are bytes and not always valid UTF-8.
  for await (const entry of (await opendir(full, { encoding: 'buffer' as BufferEncoding })) as unknown as AsyncIterable<Dirent<Buffer>>) {
    signal.throwIfAborted()
    batch.push(entry)
    if (batch.length === statBatchSize) yield* await statBatch()
  }
  yield* await statBatch()
  if (!hasVanished) return
  const current = await stat(full, { bigint: true })
  // It was unmounted or moved, not its files removed.
  if (current.dev !== dev || current.ino !== ino)
    throw new SourceFailure('SOURCE_UNREACHABLE', 'Another folder took its place while it was listed.', { isRetryable: true })
}

const unusableName = {
  kind: 'problem',
  code: 'SOURCE_PROTOCOL',
  message: 'The name is not valid UTF-8, or holds control characters.',
  isUnusableName: true,
} as const

interface FolderListing {
  folders: string[] | null
  /** called for a file that was removed since the directory was listed */
  onVanished(): void
}

async function toEntry(
  full: string,
  path: string,
  entry: Dirent<Buffer>,
  { folders, onVanished }: FolderListing,
): Promise<SourceEntry | null> {
  const name = entry.name.toString()
  const inner = path === '' ? name : `${path}/${name}`
  if (!entry.isFile() && !entry.isDirectory()) return null
  if (!Buffer.from(name).equals(entry.name) || hasControlCharacters(name)) return { ...unusableName, path: inner }
  if (entry.isDirectory()) {
    folders?.push(inner)
    return null
  }
  try {
    const stats = await lstat(join(full, name), { bigint: true })
    return stats.isFile() ? { kind: 'file', file: { path: inner, ...toVersion(stats) } } : null
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      onVanished()
      return null
    }
    return { kind: 'problem', path: inner, code: toSourceFailure(error).code, message: toSourceFailure(error).message }
  }
}

/** Includes ctime, because programs can set mtime. */
const toVersion = ({ size, mtimeNs, ctimeNs, ino, mtimeMs }: BigIntStats): Omit<SourceFile, 'path'> => ({
  size: Number(size),
  etag: [mtimeNs, ctimeNs, size, ino].map((number) => number.toString(36)).join('-'),
  modifiedAt: isStorableTime(Number(mtimeMs)) ? new Date(Number(mtimeMs)) : null,
})

async function openFile(root: string, file: SourceFile, signal: AbortSignal): Promise<SourceBody> {
  const full = join(root, file.path)
  if (!isWithin(root, full)) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
  // O_NONBLOCK: a pipe may have replaced the file.
  const handle = await open(full, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stats = await handle.stat({ bigint: true })
    // Checked after open(): a parent directory may have been replaced by a link.
    const real = await realpath(full)
    const current = await stat(full, { bigint: true })
    if (real !== full || current.ino !== stats.ino || current.dev !== stats.dev || !stats.isFile())
      throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'The file is a link, or lies behind one.')
    const { etag, modifiedAt } = toVersion(stats)
    return { bytes: streamFile(handle, Number(stats.size), etag, signal), etag, modifiedAt, discard: () => handle.close() }
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function* streamFile(handle: FileHandle, size: number, etag: string | null, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for (let left = size; ; ) {
      signal.throwIfAborted()
      // Requests one byte more than expected: a short read is the end of the file.
      const length = Math.min(readBytes, Math.max(0, left) + 1)
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(length), 0, length)
      left -= bytesRead
      if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
      if (bytesRead < length) break
    }
    if (toVersion(await handle.stat({ bigint: true })).etag !== etag)
      throw new SourceFailure('CONTENT_MISMATCH', 'The file changed while it was read.', { isRetryable: true })
  } catch (error) {
    throw signal.aborted ? signal.reason : toSourceFailure(error)
  } finally {
    await handle.close()
  }
}

function toSourceFailure(error: unknown): SourceFailure {
  if (error instanceof SourceFailure) return error
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new SourceFailure('SOURCE_NOT_FOUND_THERE', 'The file or folder does not exist.')
    case 'EACCES':
    case 'EPERM':
      return new SourceFailure('SOURCE_FORBIDDEN', 'The account of dms may not read it.')
    case 'ELOOP':
      return new SourceFailure('SOURCE_ADDRESS_FORBIDDEN', 'The file is a link.')
    default:
      return new SourceFailure('SOURCE_UNREACHABLE', `It cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`, {
        isRetryable: true,
      })
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const hasControlCharacters = (text: string): boolean => /[\u0000-\u001f\u007f]/.test(text)
