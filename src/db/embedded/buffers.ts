/** Size of PostgreSQL's shared buffers. */
import { join } from 'node:path'
import { loadMemorySize, maxSharedBuffers } from '../../config/memory.ts'
import { measureFolder } from './upgrade/copy-cluster.ts'

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
  return Math.round(Math.min(maxSharedBuffers(memory), Math.max(initial, 2 * (await measureFolder(join(folder, 'base'))))) / mebibyte)
}
