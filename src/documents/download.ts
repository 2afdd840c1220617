/** The stored bytes of a document. */
import type { App } from '../app.ts'
import type { StoredFile } from '../http/files.ts'
import { FileMissing } from '../ports/files.ts'
import type { Document } from './view.ts'

/** Ready to be sent. Throws FileMissing also where the bytes are not as many as they were: nothing is better than something wrong. */
export async function stored(
  app: App,
  { sha256, size, filename, mime_type }: Pick<Document, 'sha256' | 'size' | 'filename' | 'mime_type'>,
): Promise<StoredFile> {
  if ((await app.files.size(sha256)) !== size) throw new FileMissing(sha256)
  return { sha256, size, filename, mime_type, open: (range) => app.files.read(sha256, range) }
}
