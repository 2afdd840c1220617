/** Compares the memory of this machine with the memory that the settings allow dms to take. */
import { availableParallelism, totalmem } from 'node:os'
import type { Config } from './schema.ts'
import { formatSize } from './values.ts'

const mebibyte = 1 << 20

/** Returns the memory that this process may use, in bytes: the limit of its control group, else the memory of the machine. */
export const loadMemorySize = (): number => Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)

/** Returns the maximum shared_buffers of the embedded PostgreSQL, in bytes: a quarter of the memory, or 40 % of the memory beyond 2 GB if that is more. At least 32 MiB, at most 8 GiB. */
export function maxSharedBuffers(memory: number): number {
  const size = Math.min(8192 * mebibyte, Math.max(32 * mebibyte, memory / 4, 0.4 * (memory - 2048 * mebibyte)))
  return mebibyte * Math.round(size / mebibyte)
}

/** Server and worker without readers, and PostgreSQL without shared_buffers. */
const baseBytes = 500 * mebibyte

export interface MemoryShortage {
  readonly message: string
  readonly fix: string
}

/** Returns a warning if the readers that may run at once, and the embedded PostgreSQL, can exceed the memory. Returns null otherwise. */
export function findMemoryShortage(
  { ocr, worker, database }: Pick<Config, 'ocr' | 'worker' | 'database'>,
  memory = loadMemorySize(),
  cores = availableParallelism(),
): MemoryShortage | null {
  const readers = worker.concurrency || cores
  const buffers = database.url === '' ? maxSharedBuffers(memory) : 0
  const needed = readers * ocr.memory_limit + buffers + baseBytes
  if (needed <= memory) return null
  const format = (bytes: number) => `${(bytes / 1e9).toFixed(1)} GB`
  const postgres = buffers > 0 ? `, the embedded PostgreSQL up to ${format(buffers)}` : ''
  const fitting = Math.floor((memory - buffers - baseBytes) / ocr.memory_limit)
  return {
    message: `${format(memory)} of memory, but ${readers} readers may take ${formatSize(ocr.memory_limit)} each${postgres}`,
    fix:
      fitting > 0 ? `worker.concurrency = ${fitting}, or a lower ocr.memory_limit` : 'lower ocr.memory_limit, and worker.concurrency = 1',
  }
}
