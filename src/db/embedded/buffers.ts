/** Size of PostgreSQL's shared buffers. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { loadMemorySize, maxSharedBuffers } from '../../config/memory.ts'

const mebibyte = 1 << 20
/** PostgreSQL touches 2.4 % of shared_buffers at its start, the rest when pages are read. */
const initialBytes = 1024 * mebibyte

/**
 * Returns shared_buffers in MB for a cluster: twice its size, at least 1 GiB (a sixteenth of less memory), at most maxSharedBuffers(). Pages outside
 * of the buffers are copied from the system's cache at each use. A cluster that outgrows its buffers gets more at the next start.
 */
export async function sizeSharedBuffers(folder: string): Promise<number> {
  const memory = loadMemorySize()
  const initial = Math.min(initialBytes, Math.max(32 * mebibyte, memory / 16))
  return Math.round(Math.min(maxSharedBuffers(memory), Math.max(initial, 2 * (await measureDatabases(folder)))) / mebibyte)
}

/** Returns the bytes of all databases of a cluster. */
async function measureDatabases(folder: string): Promise<number> {
  const files = await readdir(join(folder, 'base'), { recursive: true, withFileTypes: true }).catch(() => [])
  let bytes = 0
  for (const file of files) if (file.isFile()) bytes += (await stat(join(file.parentPath, file.name)).catch(() => null))?.size ?? 0
  return bytes
}
