/** Temporary files without a name. */
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { nullIfMissing } from './missing-file.ts'

/**
 * Creates a file and removes its name, so that a kill leaves nothing behind. Streams over it should use its descriptor (`fd`): close() waits for the end of
 * streams over the handle.
 */
export async function openUnnamedFile(path: string): Promise<FileHandle> {
  const file = await open(path, 'wx+', 0o600)
  // At its start, another process may have removed the file as one of a dead process.
  await unlink(path).catch(nullIfMissing)
  return file
}
