/** Comparison of two files. */
import { type FileHandle, open } from 'node:fs/promises'

/** Bytes of each file compared at once. */
const chunkBytes = 1 << 20

/** Error codes of files that are absent or unreadable. */
const unreadableCodes = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'EACCES', 'EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])

/** Returns whether two files have the same bytes. Also false if `other` is absent or unreadable. Throws errors of `intact`. */
export async function hasSameBytes(intact: string, other: string): Promise<boolean> {
  const first = await open(intact)
  let second: FileHandle | null = null
  try {
    second = await open(other).catch(nullIfUnreadable)
    if (second === null) return false
    const size = (await first.stat()).size
    return (await second.stat()).size === size && (await compare(first, second, size))
  } finally {
    await Promise.all([first.close(), second?.close()])
  }
}

async function compare(first: FileHandle, second: FileHandle, size: number): Promise<boolean> {
  const length = Math.min(chunkBytes, size)
  const [one, other] = [Buffer.allocUnsafeSlow(length), Buffer.allocUnsafeSlow(length)]
  for (let at = 0; at < size; ) {
    const count = Math.min(length, size - at)
    const [left, right] = await Promise.all([readFully(first, one, count, at), readFully(second, other, count, at).catch(nullIfUnreadable)])
    if (right === null || left !== count || right !== count) return false
    if (one.compare(other, 0, count, 0, count) !== 0) return false
    at += count
  }
  return true
}

/** Reads `length` bytes, fewer only at the end of the file. Returns the number of bytes read. */
async function readFully(file: FileHandle, buffer: Buffer, length: number, from: number): Promise<number> {
  let done = 0
  while (done < length) {
    const { bytesRead } = await file.read(buffer, done, length - done, from + done)
    if (bytesRead === 0) break
    done += bytesRead
  }
  return done
}

function nullIfUnreadable(error: NodeJS.ErrnoException): null {
  if (!unreadableCodes.has(error.code ?? '')) throw error
  return null
}
