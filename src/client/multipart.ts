/** Multipart bodies that are read as they are sent: a file of any size costs a chunk of memory. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'

export interface Upload {
  filename: string
  /** opened when its turn comes */
  open(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>
  /** bytes; null where nobody knows, as of a pipe: then it can be opened only once */
  size: number | null
  /** where it is on this machine, for whoever wants to name it */
  path?: string
}

export interface Multipart {
  body: ReadableStream<Uint8Array>
  contentType: string
  /** null where the size of a file is not known */
  contentLength: number | null
}

/** Encodes fields (undefined ones are left out) and files, all under the name `field` (RFC 7578). */
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

  async function* chunks(): AsyncGenerator<Uint8Array> {
    if (head.length > 0) yield head
    for (const [index, file] of files.entries()) {
      yield before[index] as Buffer
      yield* file.open()
      yield between
    }
    yield end
  }
  const fixed = head.length + end.length + before.reduce((sum, { length }) => sum + length + between.length, 0)
  const contentLength = files.reduce<number | null>((sum, { size }) => (sum === null || size === null ? null : sum + size), fixed)
  return {
    body: Readable.toWeb(Readable.from(chunks(), { objectMode: false })) as ReadableStream<Uint8Array>,
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength,
  }
}

/** As browsers do (WHATWG): the three characters that would end the name early are percent-encoded. */
const quoted = (name: string): string => name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
