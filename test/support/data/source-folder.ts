/** A folder of this machine that a source may read, and functions that fill it. */
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Creates one; it is removed with the test. */
export async function makeFolder() {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'dms-source-')))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  return {
    root,
    put: async (path: string, bytes: string | Uint8Array) => {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), bytes)
    },
  }
}
