/** Parts of uploads until S3 has them: in memory as long as there is room for it, else in temporary files. */
import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openUnnamedFile } from '../../../unnamed-file.ts'
import { toStoreError } from '../../staging.ts'

/** Received bytes of one part. */
export interface PartBuffer {
  size(): number
  /** Appends a copy of the chunk. Throws SERVICE_UNAVAILABLE if memory has no room for it and the temporary file cannot be written. */
  append(chunk: Uint8Array): Promise<void>
  /** Yields all bytes. Repeatable. */
  read(): AsyncIterable<Uint8Array>
  /** Frees memory and disk. Repeatable. */
  discard(): Promise<void>
}

/** Memory for full blocks of all uploads of a process. Four uploads at full speed fit: each sends one part while the next one fills. */
const maxBytes = 64 << 20
/** Chunks are copied into blocks: a chunk of one byte would occupy a hundred times as much. */
const blockBytes = 64 << 10

/** Returns a function that begins a part. `folder`: for temporary files; created with the first one. */
export function openPartBuffers(folder: string): () => PartBuffer {
  let freeBlocks = maxBytes / blockBytes

  return () => {
    let blocks: Buffer[] = []
    let file: FileHandle | null = null
    let bytesInFile = 0
    let block: Buffer | null = null
    let bytesInBlock = 0

    const freeMemory = () => {
      freeBlocks += blocks.length
      blocks = []
    }
    const moveToFile = async (): Promise<FileHandle> => {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      // If the process dies before the name is removed, openStaging() removes the file, because it ends in .part.
      file = await openUnnamedFile(join(folder, `${randomBytes(8).toString('hex')}.part`))
      await file.writeFile(blocks)
      bytesInFile = blocks.length * blockBytes
      freeMemory()
      return file
    }
    const storeBlock = async (full: Buffer): Promise<void> => {
      if (!file && freeBlocks > 0) {
        freeBlocks--
        blocks.push(full)
        block = null
      } else {
        await (file ?? (await moveToFile())).writeFile(full)
        bytesInFile += blockBytes
      }
      bytesInBlock = 0
    }

    return {
      size: () => blocks.length * blockBytes + bytesInFile + bytesInBlock,
      async append(chunk) {
        for (let at = 0; at < chunk.length; ) {
          block ??= Buffer.allocUnsafeSlow(blockBytes)
          const copied = chunk.subarray(at, at + blockBytes - bytesInBlock)
          block.set(copied, bytesInBlock)
          bytesInBlock += copied.length
          at += copied.length
          if (bytesInBlock === blockBytes) await storeBlock(block).catch(throwStoreError)
        }
      },
      async *read() {
        yield* blocks
        for (let position = 0; position < bytesInFile; ) {
          const length = Math.min(blockBytes, bytesInFile - position)
          const { bytesRead, buffer } = await (file as FileHandle)
            .read({ buffer: Buffer.allocUnsafeSlow(length), length, position })
            .catch(throwStoreError)
          if (bytesRead === 0) throw new Error('a temporary file is shorter than what was written to it')
          yield buffer.subarray(0, bytesRead)
          position += bytesRead
        }
        if (block && bytesInBlock > 0) yield block.subarray(0, bytesInBlock)
      },
      async discard() {
        freeMemory()
        block = null
        bytesInBlock = 0
        bytesInFile = 0
        await file?.close().catch(() => {})
        file = null
      },
    }
  }
}

const throwStoreError = (error: unknown): never => {
  throw toStoreError(error)
}
