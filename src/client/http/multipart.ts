/** Streamed multipart/form-data bodies: memory use does not depend on file sizes. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'

export interface Upload {
  filename: string
  /** opened when it is sent */
  open(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>
  /** bytes; null: unknown, such as a pipe, which can be opened only once */
  size: number | null
  /** local path, for display */
  path?: string
}

export interface Multipart {
  body: ReadableStream<Uint8Array>
  contentType: string
  /** null if the size of a file is unknown */
  contentLength: number | null
  /** Returns the error of a file that could not be read, null without one. The server gets an incomplete body then. */
  readError(): Error | null
}

/** Encodes fields and files (RFC 7578). Skips undefined fields; all files get the name `field`. */
export function multipart(
  fields: Readonly<Record<string, string | number | boolean | undefined>>,
  field: string,
  files: readonly Upload[],
): Multipart {
  const boundary = `dms-${randomUUID()}`
  const part = (name: string, more = '') => `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(name)}"${more}\r\n\r\n`
  const texts = Object.entries(fields).filter(([, value]) => value !== undefined)
  const head = Buffer.from(texts.map(([name, value]) => `${part(name)}${value}\r\n`).join(''))
  const before = files.map(({ filename }) =>
    Buffer.from(part(field, `; filename="${quoted(filename)}"\r\ncontent-type: application/octet-stream`)),
  )
  const between = Buffer.from('\r\n')
  const end = Buffer.from(`--${boundary}--\r\n`)

  let readError: Error | null = null
  async function* reading(file: Upload): AsyncGenerator<Uint8Array> {
    let isRead = false
    try {
      for await (const chunk of file.open()) {
        isRead = true
        yield chunk
        isRead = false
      }
    } catch (error) {
      // An error thrown at the yield is that of the receiver.
      if (!isRead) readError = error as Error
      throw error
    }
  }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    if (head.length > 0) yield head
    for (const [index, file] of files.entries()) {
      yield before[index] as Buffer
      yield* reading(file)
      yield between
    }
    yield end
  }
  // A pipe may be slow: its bytes are sent as they come.
  const body = files.some(({ size }) => size === null) ? chunks() : joinSmall(chunks())
  const fixed = head.length + end.length + before.reduce((sum, { length }) => sum + length + between.length, 0)
  const contentLength = files.reduce<number | null>((sum, { size }) => (sum === null || size === null ? null : sum + size), fixed)
  return {
    body: Readable.toWeb(Readable.from(body, { objectMode: false })) as ReadableStream<Uint8Array>,
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength,
    readError: () => readError,
  }
}

/** Chunks of less than this are sent together: each write costs processor time in the client and in the server. */
const minChunkBytes = 1 << 16

async function* joinSmall(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let small: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    small.push(chunk)
    bytes += chunk.length
    if (bytes < minChunkBytes) continue
    yield small.length === 1 ? chunk : Buffer.concat(small)
    small = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(small)
}

/**
 * Percent-encodes the characters that would end the name, as browsers do (WHATWG), and the `%` of a name such as `a%22b.txt`, which browsers leave.
 * Replaces the control characters that headers cannot have, as the server replaces all of them.
 */
const quoted = (name: string): string =>
  name
    .replace(/(?![\t\r\n])\p{Cc}/gu, '_')
    .replace(/%(?=(?:25)*(?:22|0D|0A))/g, '%25')
    .replaceAll('"', '%22')
    .replaceAll('\r', '%0D')
    .replaceAll('\n', '%0A')
