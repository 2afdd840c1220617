/** Usage of processor, memory and disk of the host. */
import { statfs } from 'node:fs/promises'
import { cpus, freemem, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/schema.ts'
import { storeFolder } from '../files/store-marker.ts'

/** Interval over which processor usage is measured. */
const sampleMs = 200

/** Returns the usage of all processors in percent, measured over the next 200 ms. */
export async function cpuUsage(): Promise<number> {
  const before = cpuTimes()
  await sleep(sampleMs)
  const after = cpuTimes()
  return percent(after.busy - before.busy, after.all - before.all)
}

/** Returns the memory in use in percent. */
export const memoryUsage = (): number => percent(totalmem() - freemem(), totalmem())

/**
 * Returns the usage of the disk of the document store in percent, calculated like `df`. Uses the data directory if documents are stored
 * elsewhere.
 */
export async function diskUsage(config: Config): Promise<number> {
  const { bsize, blocks, bfree, bavail } = await statfs(storageFolder(config))
  const used = (blocks - bfree) * bsize
  return percent(used, used + bavail * bsize)
}

/** Returns the bytes available on that disk. */
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

/** Returns percent with one decimal. */
const percent = (part: number, whole: number): number => (whole > 0 ? Math.round((1000 * part) / whole) / 10 : 0)
