/** Temporary files without a name. */
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { nullIfMissing } from './missing-file.ts'

/**
 * Creates a file and removes its name, so that a kill leaves nothing behind. Streams should use the descriptor (`fd`): with a stream over the handle, close()
 * would wait for the end of the stream.
 */
export async function openUnnamedFile(path: string): Promise<FileHandle> {
  const file = await open(path, 'wx+', 0o600)
  // At its start, another process may have removed the file as one of a dead process.
  await unlink(path).catch(nullIfMissing)
  return file
}
