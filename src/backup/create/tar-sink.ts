/** Destination of a backup, and its implementation as a tar archive in a file or a pipe. */
import { existsSync } from 'node:fs'
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { AppError } from '../../errors.ts'
import { createFolder, flushFolder } from '../../folders.ts'
import { tarEnd, tarHeader, tarPadding } from '../../http/tar-writer.ts'
import { addPath, nullIfMissing } from '../../missing-file.ts'
import { type Bytes, writeChunk } from '../byte-streams.ts'
import { BackupDamaged, type Head, manifestPath } from '../manifest.ts'

export interface BackupSink {
  /** maximum number of concurrent put() calls */
  readonly concurrency: number
  /** Receives the head. Throws AppError CONFLICT if the destination holds something else. */
  begin(head: Head): Promise<void>
  /** Reads and hashes the copy from an earlier backup. Returns true if it is intact. */
  hasIntact(path: string, sha256: string, size: number): Promise<boolean>
  /** Writes one entry of exactly `size` bytes. Does not retain the chunks. */
  put(path: string, size: number, bytes: Bytes): Promise<void>
  /** Flushes and reads back what was written, then makes the backup valid atomically. `filePaths`: all stored files of this backup, ascending. */
  finish(manifest: string, filePaths: () => AsyncIterable<string>): Promise<void>
  /** Removes an unfinished backup. */
  discard(): Promise<void>
}

/** Small writes are combined up to this size. */
const bufferBytes = 1 << 20

/** Writes an archive to a stream, such as standard output. */
export const streamSink = (stream: Writable): BackupSink =>
  tarSink((chunk) =>
    writeChunk(stream, chunk).catch(({ message }: Error) => {
      // Without the code: EPIPE is also the error of a lost connection, after which a retry helps.
      throw new Error(`cannot write the archive: ${message}`)
    }),
  )

/** Writes an archive to a temporary file. Renames it when it is complete and on disk. begin() throws AppError CONFLICT if the file exists. */
export function fileSink(path: string): BackupSink {
  const partial = `${path}.partial`
  let file: FileHandle | null = null
  let written = 0
  /** Returns whether the temporary file still has its name. Another backup to the same path takes it away. */
  const hasName = async (): Promise<boolean> => {
    const [own, named] = [await file?.stat(), await stat(partial).catch(nullIfMissing)]
    return own?.ino === named?.ino && own?.dev === named?.dev
  }
  const tar = tarSink(async (chunk) => {
    await file?.writeFile(chunk).catch(addPath(path))
    written += chunk.length
  })
  return {
    ...tar,
    async begin(head) {
      await assertAbsent(path)
      await createFolder(dirname(path), 0o700)
      // Left over from a killed backup, or in use by another backup, which then fails when it finishes.
      await unlink(partial).catch(nullIfMissing)
      file = await open(partial, 'wx+', 0o600)
      await tar.begin(head)
    },
    async finish(manifest, filePaths) {
      await tar.finish(manifest, filePaths)
      await file?.sync().catch(addPath(path))
      if (file) await readBack(file, written, manifest)
      if (!(await hasName())) throw new AppError('CONFLICT', { path }, `another backup writes to ${path}`)
      await file?.close()
      await assertAbsent(path)
      await rename(partial, path)
      await flushFolder(dirname(path))
    },
    async discard() {
      if (!file) return
      const isOurs = await hasName().catch(() => false)
      await file.close().catch(() => {})
      if (isOurs) await unlink(partial).catch(() => {})
    },
  }
}

/** Throws BackupDamaged if the archive does not end with the manifest. */
async function readBack(file: FileHandle, written: number, manifest: string): Promise<void> {
  const text = Buffer.from(manifest)
  const { size } = await file.stat()
  const end = Buffer.alloc(text.length)
  await file.read(end, 0, end.length, written - tarEnd.length - tarPadding(text.length).length - text.length)
  if (size !== written || !end.equals(text)) throw new BackupDamaged('the end of the archive was read back with other bytes')
}

async function assertAbsent(path: string): Promise<void> {
  if (existsSync(path)) throw new AppError('CONFLICT', { path }, `${path} exists already`)
}

function tarSink(put: (chunk: Uint8Array) => Promise<void>): BackupSink {
  const buffer = Buffer.allocUnsafeSlow(bufferBytes)
  let length = 0
  const flush = async () => {
    if (length > 0) await put(buffer.subarray(0, length))
    length = 0
  }
  const add = async (chunk: Uint8Array) => {
    if (length + chunk.length > buffer.length) await flush()
    if (chunk.length > buffer.length) await put(chunk)
    else {
      buffer.set(chunk, length)
      length += chunk.length
    }
  }
  let modified = 0
  const sink: BackupSink = {
    concurrency: 1,
    async begin({ created_at }) {
      modified = Date.parse(created_at) / 1000
    },
    hasIntact: async () => false,
    async put(path, size, bytes) {
      await add(tarHeader(path, size, modified))
      let done = 0
      for await (const chunk of bytes) {
        done += chunk.length
        await add(chunk)
      }
      if (done !== size) throw new Error(`${path}: received ${done} bytes instead of ${size}`)
      await add(tarPadding(size))
    },
    async finish(manifest) {
      const text = Buffer.from(manifest)
      await sink.put(manifestPath, text.length, [text])
      await add(tarEnd)
      await flush()
    },
    async discard() {},
  }
  return sink
}
