/** Cache of SHA-256 checksums by path, size and modification time. A second run does not read unchanged files again. */
import { createHash } from 'node:crypto'
import { appendFile, mkdir, readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import type { FoundFile } from './find-files.ts'

interface Entry {
  readonly path: string
  readonly size: number
  readonly mtime_ns: string
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
export function uploadCachePath(env: Readonly<Record<string, string | undefined>>, server: string, paths: readonly string[]): string {
  const state = env.XDG_STATE_HOME
  const folder = state && isAbsolute(state) ? state : join(env.HOME || homedir(), '.local', 'state')
  const what = JSON.stringify([server, ...paths.map((path) => resolve(path)).sort()])
  return join(folder, 'dms', 'uploads', `${createHash('sha256').update(what).digest('hex').slice(0, 32)}.jsonl`)
}

/** Opens or creates the cache. A write error disables it and calls `onProblem` once. */
export async function openUploadCache(path: string, onProblem: (error: Error) => void): Promise<UploadCache> {
  const entries = new Map((await readEntries(path)).map((entry) => [entry.path, entry]))
  let isBroken = false
  const write = async (text: string): Promise<void> => {
    if (isBroken) return
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await appendFile(path, text, { mode: 0o600 })
    } catch (error) {
      isBroken = true
      onProblem(error as Error)
    }
  }
  return {
    getSha256({ path: given, size, mtimeNs }) {
      const entry = entries.get(resolve(given))
      return entry && entry.size === size && entry.mtime_ns === mtimeNs ? entry.sha256 : undefined
    },
    async add({ path: given, size, mtimeNs }, sha256, id) {
      const entry: Entry = { path: resolve(given), size: size ?? 0, mtime_ns: mtimeNs, sha256, id }
      const before = entries.get(entry.path)
      if (before && JSON.stringify(before) === JSON.stringify(entry)) return
      entries.set(entry.path, entry)
      await write(`${JSON.stringify(entry)}\n`)
    },
  }
}

/** Skips an incomplete last line. */
async function readEntries(path: string): Promise<Entry[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    try {
      const entry = JSON.parse(line) as Partial<Entry> | null
      return typeof entry?.path === 'string' && /^[0-9a-f]{64}$/.test(String(entry.sha256)) ? [entry as Entry] : []
    } catch {
      return []
    }
  })
}
