/** Document files in a folder of this machine: durable before they are named, named by what they hold. */
import { createReadStream } from 'node:fs'
import { mkdir, open, readFile, rename, rm, stat, statfs, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError } from '../errors.ts'
import { FileMissing, type FileStore } from '../ports.ts'
import { openStaging } from './staging.ts'

export interface DiskOptions {
  path: string
  /** where bytes wait for their name; must be on the same file system */
  tmp_path: string
  /** bytes that must stay free */
  min_free: number
  fsync: boolean
}

/** Opens (and where needed creates) the folder. */
export async function openDisk({ path: root, tmp_path, min_free, fsync }: DiskOptions): Promise<FileStore> {
  const place = (sha256: string) => join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256)
  const derived = (sha256: string) => join(root, '.derived', sha256.slice(0, 2), sha256)
  await mkdir(root, { recursive: true, mode: 0o700 })
  const staging = await openStaging({ folder: tmp_path || join(root, '.tmp'), fsync })

  const check = async () => {
    const { bavail, bsize } = await statfs(root)
    if (bavail * bsize < min_free) throw new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store is full.')
  }

  return {
    async stage(source, maxSize) {
      await check()
      const staged = await staging.write(source, maxSize)
      return {
        ...staged,
        commit: () => giveName(staged.path, place(staged.sha256), root, fsync),
        discard: () => unlink(staged.path).catch(() => {}),
      }
    },
    async read(sha256, range) {
      const handle = await open(place(sha256)).catch((error) => refuseMissing(error, sha256))
      return createReadStream('', { fd: handle, highWaterMark: 1 << 18, ...range })
    },
    async local(sha256) {
      const path = place(sha256)
      await stat(path).catch((error) => refuseMissing(error, sha256))
      return { path, release: async () => {} }
    },
    async size(sha256) {
      return (await stat(place(sha256)).catch(nothing))?.size ?? null
    },
    async remove(sha256) {
      await unlink(place(sha256)).catch(nothing)
      await rm(derived(sha256), { recursive: true, force: true })
    },
    readDerived: async (sha256, name) => (await readFile(join(derived(sha256), name)).catch(nothing)) ?? null,
    async writeDerived(sha256, name, bytes) {
      const staged = await staging.write([bytes], bytes.length)
      const target = join(derived(sha256), name)
      await mkdir(dirname(target), { recursive: true, mode: 0o700 })
      await rename(staged.path, target)
    },
    check,
    close: async () => {},
  }
}

/** Rename, then flush the folder: only now does a crash leave the name and all the bytes behind it. */
async function giveName(from: string, to: string, root: string, fsync: boolean): Promise<void> {
  if (await stat(to).catch(nothing)) return unlink(from).catch(nothing)
  const made = await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await rename(from, to)
  if (!fsync) return
  await flushFolder(dirname(to))
  if (!made) return
  // A folder that was just made is itself only a name in its parent.
  await flushFolder(dirname(dirname(to)))
  await flushFolder(root)
}

async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function nothing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

function refuseMissing(error: NodeJS.ErrnoException, sha256: string): never {
  throw error.code === 'ENOENT' ? new FileMissing(sha256) : error
}
