/** Durable names: flushes folders. */
import { open } from 'node:fs/promises'

/** Coalesces flushes: requests during a flush of the same folder share the next one. */
export function coalesceFlushes(): (folder: string) => Promise<void> {
  const running = new Map<string, Promise<void>>()
  const waiting = new Map<string, Promise<void>>()
  return (folder) => {
    const shared = waiting.get(folder)
    if (shared) return shared
    const flush = (running.get(folder) ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        waiting.delete(folder)
        running.set(folder, flush)
        return flushFolder(folder)
      })
      .finally(() => {
        if (running.get(folder) === flush) running.delete(folder)
      })
    waiting.set(folder, flush)
    return flush
  }
}

/** Flushes the names in a folder. */
export async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
