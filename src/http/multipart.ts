/** Reads multipart bodies as streams. */
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import type { H3Event } from 'h3'
import { AppError, invalid } from '../errors.ts'
import { readChunks, recheckAfterBody, rejectLargerThan } from './input.ts'
import { decode } from './json/parse.ts'
import { collectValues } from './named-values.ts'

export interface MultipartLimits {
  /** Maximum size of a file. */
  fileBytes: number
  /** Maximum number of files. */
  files: number
  /** Name of the field with the files. */
  field: string
  /** Maximum size of the whole body. */
  totalBytes: number
  /** Maximum time to receive the whole body. */
  timeoutMs: number
}

export interface Part {
  field: string
  filename: string
  source: Readable
}

/** Field values by name. See collectValues(). */
export type Fields = Record<string, unknown>

const maxFields = 50
const maxFieldBytes = 64 << 10

/**
 * Reads the body and returns its fields. `receive` gets a stream for each file and is awaited. The first failure, also an aborted connection,
 * stops all and is thrown. Throws UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE or VALIDATION_ERROR.
 */
export async function readMultipart(event: H3Event, limits: MultipartLimits, receive: (part: Part) => Promise<void>): Promise<Fields> {
  rejectLargerThan(event, limits.totalBytes, fileLimit(limits))
  const parser = openParser(event, limits)
  const stop = new AbortController()
  const fields: [name: string, value: string][] = []
  const received: Promise<void>[] = []
  const abort = (error: unknown) => stop.abort(error)

  parser.on('field', (nameBytes, value, { valueTruncated, nameTruncated, encoding }) => {
    const name = decodeParameter(nameBytes ?? '')
    if (valueTruncated || nameTruncated) abort(invalid(name, 'is too long'))
    // Such as a list of files in one part (`curl -F files=@a,b`), which RFC 7578 forbids. They would be lost.
    else if (name === limits.field) abort(invalid(name, 'each file must be a part with a filename'))
    else if (isEncoded(encoding)) abort(encoded(name, encoding))
    else if (value.includes('\0')) abort(invalid(name, 'holds the character U+0000'))
    else fields.push([name, value])
  })
  parser.on('file', (field, source, { filename, encoding }) => {
    // Without a listener, an error of the part (a broken connection) would be uncaught.
    source.on('error', () => {})
    if (isEncoded(encoding)) {
      abort(encoded(field, encoding))
      return void source.resume()
    }
    const receiving = receive({ field: field ?? '', filename: unescapeName(decodeParameter(filename ?? '')), source })
    received.push(receiving)
    receiving.catch((error) => {
      abort(error)
      source.resume()
    })
  })
  parser.on('filesLimit', () => abort(invalid(limits.field, `at most ${limits.files}`)))
  parser.on('fieldsLimit', () => abort(invalid('', `more than ${maxFields} fields`)))
  parser.on('partsLimit', () => abort(invalid('', 'too many parts')))
  parser.on('error', () => abort(malformed()))

  const startedAt = performance.now()
  const timer = setTimeout(() => abort(invalid('', `the upload took longer than ${limits.timeoutMs / 1000} s`)), limits.timeoutMs)
  try {
    await pump(readChunks(event), parser, limits, stop.signal)
  } catch (error) {
    abort(error instanceof AppError ? error : malformed())
  } finally {
    clearTimeout(timer)
  }
  // Also destroys an incomplete part: its reader gets an error, never a truncated file.
  if (stop.signal.aborted) parser.destroy(new Error('the upload was refused'))
  await Promise.allSettled(received)
  if (stop.signal.aborted) throw stop.signal.reason
  await recheckAfterBody(event, startedAt)
  return collectValues(fields)
}

const fileLimit = ({ field, fileBytes }: MultipartLimits) => ({ field, max_bytes: fileBytes })

/** Writes the body to the parser. pipeline() would destroy the request on failure, and with it the connection that the answer needs. */
async function pump(body: AsyncIterable<Uint8Array>, parser: busboy.Busboy, limits: MultipartLimits, signal: AbortSignal): Promise<void> {
  let size = 0
  for await (const chunk of body) {
    signal.throwIfAborted()
    size += chunk.length
    if (size > limits.totalBytes) throw new AppError('PAYLOAD_TOO_LARGE', fileLimit(limits))
    if (!parser.write(chunk)) await once(parser, 'drain', { signal })
  }
  parser.end()
  await once(parser, 'close', { signal })
}

function openParser(event: H3Event, { fileBytes, files }: MultipartLimits): busboy.Busboy {
  // busboy refuses an empty parameter at the end, which RFC 9110, 5.6.6 allows.
  const type = (event.req.headers.get('content-type') ?? '').replace(/;\s*$/, '')
  if (!/^multipart\/form-data\s*(?:;|$)/i.test(type)) throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'multipart/form-data' })
  try {
    return busboy({
      headers: { 'content-type': type },
      // One character for each byte: decodeParameter() decodes them.
      defParamCharset: 'latin1',
      // documents/file-names.ts removes paths with both kinds of slashes.
      preservePath: true,
      highWaterMark: 1 << 20,
      fileHwm: 1 << 20,
      // One byte above the limit: staging detects the excess instead of storing a truncated file.
      limits: {
        fileSize: fileBytes + 1,
        files,
        fields: maxFields,
        // busboy reports a field of exactly this size as truncated.
        fieldSize: maxFieldBytes + 1,
        parts: files + maxFields + 1,
        headerPairs: 100,
      },
    })
  } catch {
    throw invalid('', 'the Content-Type header has no boundary: leave this header to the HTTP client')
  }
}

/** Decodes a name whose characters are bytes: UTF-8, as browsers and curl send it, else latin1. Names of `filename*` are decoded already. */
function decodeParameter(text: string): string {
  const bytes = Buffer.from(text, 'latin1')
  if (bytes.toString('latin1') !== text) return text
  try {
    return decode(bytes, { ignoreBOM: true })
  } catch {
    return text
  }
}

const escapes: Readonly<Record<string, string>> = { '%22': '"', '%0D': '\r', '%0A': '\n', '%25': '%' }

/**
 * Decodes a file name. Browsers, curl and the dms client escape these three characters only (WHATWG HTML, multipart/form-data). The dms client also
 * escapes the `%` of a name that has such an escape itself.
 */
const unescapeName = (name: string): string =>
  name.replace(/%(?:22|0D|0A)|%25(?=(?:25)*(?:22|0D|0A))/g, (sequence) => escapes[sequence] as string)

/** Tells if the bytes of a part are encoded (RFC 7578, 4.7). busboy does not decode them. */
const isEncoded = (encoding: string): boolean => encoding === 'base64' || encoding === 'quoted-printable'

const encoded = (name: string, encoding: string): AppError =>
  invalid(name, `must not be encoded: its Content-Transfer-Encoding is ${encoding}`)

const malformed = (): AppError => invalid('', 'the multipart body is incomplete or malformed: send it again')
