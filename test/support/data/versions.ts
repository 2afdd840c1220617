/** Documents with several versions. */
import type { Client } from '../../../src/client/client.ts'

/** Replaces the file of a document by these bytes. */
export async function replace(client: Client, id: string, filename: string, bytes: string | Uint8Array) {
  const buffer = Buffer.from(bytes)
  return client.documents.replace(id, { filename, size: buffer.length, open: () => [buffer] })
}
