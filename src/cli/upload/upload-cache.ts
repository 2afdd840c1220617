/** Cache of SHA-256 checksums by path, size, modification time and status change time. A second run does not read unchanged files again. */
import { hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { hashStream } from '../../hash-stream.ts'
import { readTextLines } from '../../text-lines.ts'
import { createFile, createOwnedFolder } from '../runtime/owned-files.ts'
import { type Env, stateFolder } from '../runtime/private-file.ts'
import type { FoundFile } from './find-files.ts'
import { openFile } from './send.ts'

interface Entry {
  readonly path: string
  readonly size: number
  readonly mtime_ns: string
  /** absent in older caches */
  readonly ctime_ns?: string
  readonly sha256: string
  readonly id: string
}

export interface UploadCache {
  /** returns the checksum of an unchanged file */
  getSha256(file: FoundFile): string | undefined
  /** records an uploaded file */
  add(file: FoundFile, sha256: string, id: string): Promise<void>
}

/** Returns the path of the cache: one per server and set of paths. */
export function uploadCachePath(env: Env, server: string, paths: readonly string[]): string {
  const key = JSON.stringify([server, ...paths.map((path) => resolve(path)).sort()])
  return join(stateFolder(env), 'uploads', `${hash('sha256', key).slice(0, 32)}.jsonl`)
}

/** Opens or creates the cache. A write error disables it and calls `onWriteError` once. */
export async function openUploadCache(path: string, onWriteError: (error: Error) => void): Promise<UploadCache> {
  /** Strings need a third of the memory of objects. */
  const entries = new Map((await readEntries(path)).map((entry) => [entry.path, pack(entry)]))
  let isBroken = false
  let created: Promise<void> | undefined
  const write = async (text: string): Promise<void> => {
    if (isBroken) return
    try {
      created ??= create(path)
      await created
      await appendFile(path, text, { mode: 0o600 })
    } catch (error) {
      isBroken = true
      onWriteError(error as Error)
    }
  }
  return {
    getSha256({ path, size, mtimeNs, ctimeNs }) {
      const [sha256, ...version] = entries.get(resolve(path))?.split(' ') ?? []
      return version[0] === String(size) && version[1] === mtimeNs && version[2] === ctimeNs ? sha256 : undefined
    },
    async add({ path: file, size, mtimeNs, ctimeNs }, sha256, id) {
      const entry: Entry = { path: resolve(file), size: size ?? 0, mtime_ns: mtimeNs, ctime_ns: ctimeNs, sha256, id }
      const packed = pack(entry)
      if (entries.get(entry.path) === packed) return
      entries.set(entry.path, packed)
      await write(`${JSON.stringify(entry)}\n`)
    },
  }
}

/** Creates the file and its folder if they do not exist. */
async function create(path: string): Promise<void> {
  await createOwnedFolder(dirname(path))
  const file = await createFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await file?.close()
}

const pack = ({ sha256, size, mtime_ns, ctime_ns, id }: Entry): string =>
  Buffer.from(`${sha256} ${size} ${mtime_ns} ${ctime_ns} ${id}`).toString('latin1')

/** Reads the cache line by line: it may be longer than a string can be. Skips an incomplete last line. A cache that cannot be read is empty. */
async function readEntries(path: string): Promise<Entry[]> {
  const entries: Entry[] = []
  try {
    for await (const line of readTextLines(createReadStream(path))) entries.push(...parseEntry(line))
  } catch {
    // The files are read again.
  }
  return entries
}

function parseEntry(line: string): Entry[] {
  try {
    const entry = JSON.parse(line) as Partial<Entry> | null
    return typeof entry?.path === 'string' && /^[0-9a-f]{64}$/.test(String(entry.sha256)) ? [entry as Entry] : []
  } catch {
    return []
  }
}

/** Returns the SHA-256 of a file. Returns undefined if the file cannot be read or `signal` aborts: the upload then reports the error. */
export async function hashFoundFile(
  { path, size }: Pick<FoundFile, 'path' | 'size'>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  try {
    return await hashStream(openFile(path, size, signal))
  } catch {
    return undefined
  }
}
