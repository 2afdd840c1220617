/** Whether two files hold the same bytes. */
import { type FileHandle, open } from 'node:fs/promises'

/** Bytes of each file that are held in memory and compared at once. */
const pieceBytes = 1 << 20

/** What a disk says of a file that it cannot give back: no such file, no such folder, unreadable. */
const unreadable = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])

/**
 * Compares a file that is known to be good with another one, to the first difference. False also where the other one is missing or cannot be read.
 * Throws what goes wrong with the first.
 */
export async function hasSameBytes(good: string, other: string): Promise<boolean> {
  const first = await open(good)
  const second = await open(other).catch(nullWhereUnreadable)
  try {
    if (second === null) return false
    const size = (await first.stat()).size
    return (await second.stat()).size === size && (await compare(first, second, size))
  } finally {
    await Promise.all([first.close(), second?.close()])
  }
}

async function compare(first: FileHandle, second: FileHandle, size: number): Promise<boolean> {
  const length = Math.min(pieceBytes, size)
  const [one, other] = [Buffer.allocUnsafeSlow(length), Buffer.allocUnsafeSlow(length)]
  for (let at = 0; at < size; ) {
    const wanted = Math.min(length, size - at)
    const [left, right] = await Promise.all([fill(first, one, wanted, at), fill(second, other, wanted, at).catch(nullWhereUnreadable)])
    if (right === null || left !== wanted || right !== wanted) return false
    if (one.compare(other, 0, wanted, 0, wanted) !== 0) return false
    at += wanted
  }
  return true
}

/** Reads `wanted` bytes, fewer only at the end of the file; how many. */
async function fill(file: FileHandle, buffer: Buffer, wanted: number, from: number): Promise<number> {
  let done = 0
  while (done < wanted) {
    const { bytesRead } = await file.read(buffer, done, wanted - done, from + done)
    if (bytesRead === 0) break
    done += bytesRead
  }
  return done
}

function nullWhereUnreadable(error: NodeJS.ErrnoException): null {
  if (!unreadable.has(error.code ?? '')) throw error
  return null
}
