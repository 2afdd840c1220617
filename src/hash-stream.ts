import { createHash } from 'node:crypto'

/** Reads a stream to its end. Returns the SHA-256 (hex) of its bytes. */
export async function hashStream(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of bytes) hash.update(chunk)
  return hash.digest('hex')
}
