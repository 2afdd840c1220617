/** Downloads of stored bytes. */
import type { App } from '../app.ts'
import type { StoredFile } from '../http/files.ts'
import { FileMissing } from '../ports/file-store.ts'
import { withAddress } from './stored-files.ts'
import type { Document } from './view.ts'

/** Opens the file of a document. Throws FileMissing if it is absent or its size is wrong. */
export async function openStoredFile(
  app: App,
  {
    sha256,
    size,
    filename,
    mime_type,
    created_at,
    file_replaced_at,
  }: Pick<Document, 'sha256' | 'size' | 'filename' | 'mime_type' | 'created_at' | 'file_replaced_at'>,
): Promise<StoredFile> {
  const found = await withAddress(app.reads, sha256, async (address) => {
    if ((await app.files.size(address)) !== size) throw new FileMissing(address)
    return address
  })
  const open: StoredFile['open'] = (range) =>
    app.files.read(found, range).catch((error) => {
      if (!(error instanceof FileMissing)) throw error
      return withAddress(app.reads, sha256, (address) => app.files.read(address, range))
    })
  return { sha256, size, filename, mime_type, modifiedAt: file_replaced_at ?? created_at, open }
}
