/** How busy the machine is. */
import { statfs } from 'node:fs/promises'
import { cpus, freemem, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/schema.ts'
import { storeFolder } from '../files/store-marker.ts'

/** Milliseconds over which the processor is watched. */
const sampleMs = 200

/** Percent of all processors' time that was spent on work, watched over a fifth of a second from now. */
export async function cpuUsage(): Promise<number> {
  const before = cpuTimes()
  await sleep(sampleMs)
  const after = cpuTimes()
  return percent(after.busy - before.busy, after.all - before.all)
}

/** Percent of the memory that is not available. */
export const memoryUsage = (): number => percent(totalmem() - freemem(), totalmem())

/** Percent of the document store's disk that is used, as `df` counts it; of the data folder's disk where documents are stored elsewhere. */
export async function diskUsage(config: Config): Promise<number> {
  const { bsize, blocks, bfree, bavail } = await statfs(storageFolder(config))
  const used = (blocks - bfree) * bsize
  return percent(used, used + bavail * bsize)
}

/** Bytes that are left to us on that disk. */
export async function diskFree(config: Config): Promise<number> {
  const { bsize, bavail } = await statfs(storageFolder(config))
  return bavail * bsize
}

const storageFolder = (config: Config): string => (config.storage.kind === 'disk' ? storeFolder(config) : config.data_dir)

function cpuTimes(): { busy: number; all: number } {
  let [busy, all] = [0, 0]
  for (const { times } of cpus()) {
    const sum = times.user + times.nice + times.sys + times.irq + times.idle
    all += sum
    busy += sum - times.idle
  }
  return { busy, all }
}

/** With one digit after the point. */
const percent = (part: number, whole: number): number => (whole > 0 ? Math.round((1000 * part) / whole) / 10 : 0)
