/** Durable names: flushes folders. */
import { open } from 'node:fs/promises'

/** Flushes the names in a folder. */
export async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
