/** Multipart bodies, read as they come: files go to `receive` as streams, fields are collected. */
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import type { H3Event } from 'h3'
import { AppError, invalid } from '../errors.ts'
import { readChunks, rejectLargerThan } from './body.ts'

export interface MultipartLimits {
  /** bytes of one file */
  fileBytes: number
  files: number
  /** the field that they go into */
  field: string
  /** bytes of the whole body */
  totalBytes: number
  /** milliseconds that the whole body may take */
  timeoutMs: number
}

export interface Part {
  field: string
  filename: string
  source: Readable
}

/** Field values by name; of a repeated field the last counts. */
export type Fields = Record<string, string>

const maxFields = 50
const maxFieldBytes = 64 << 10

/**
 * Reads the body to its end. `receive` is awaited for every file part before the answer; the first failure, an aborted connection
 * included, ends everything and is thrown. Throws UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, VALIDATION_ERROR.
 */
export async function readMultipart(event: H3Event, limits: MultipartLimits, receive: (part: Part) => Promise<void>): Promise<Fields> {
  rejectLargerThan(event, limits.totalBytes, limits.fileBytes)
  const parser = openParser(event, limits)
  const stop = new AbortController()
  const fields: Fields = Object.create(null)
  const received: Promise<void>[] = []
  const abort = (error: unknown) => stop.abort(error)

  parser.on('field', (name, value, { valueTruncated, nameTruncated }) => {
    if (valueTruncated || nameTruncated) abort(invalid(name, 'is too long'))
    else if (value.includes('\0')) abort(invalid(name, 'holds the character U+0000'))
    else fields[name ?? ''] = value
  })
  parser.on('file', (field, source, { filename }) => {
    // Without a listener an error of the part (a cut connection) would be an uncaught one.
    source.on('error', () => {})
    const done = receive({ field: field ?? '', filename: unescapeName(filename ?? ''), source })
    received.push(done)
    done.catch((error) => {
      abort(error)
      source.resume()
    })
  })
  parser.on('filesLimit', () => abort(invalid(limits.field, `at most ${limits.files}`)))
  parser.on('fieldsLimit', () => abort(invalid('', `more than ${maxFields} fields`)))
  parser.on('partsLimit', () => abort(invalid('', 'too many parts')))
  parser.on('error', (error) => abort(malformed(error)))

  const clock = setTimeout(() => abort(invalid('', `the upload took longer than ${limits.timeoutMs / 1000} s`)), limits.timeoutMs)
  try {
    await pump(readChunks(event), parser, limits, stop.signal)
  } catch (error) {
    abort(error instanceof AppError ? error : malformed(error))
  } finally {
    clearTimeout(clock)
  }
  // Also ends a part that was cut off in the middle: its reader gets an error, never a short file.
  if (stop.signal.aborted) parser.destroy(new Error('the upload was refused'))
  await Promise.allSettled(received)
  if (stop.signal.aborted) throw stop.signal.reason
  return fields
}

/** Not a pipeline: that would destroy the request at the first failure, and with it the connection that the answer needs. */
async function pump(body: AsyncIterable<Uint8Array>, parser: busboy.Busboy, limits: MultipartLimits, signal: AbortSignal): Promise<void> {
  let size = 0
  for await (const chunk of body) {
    // Seen with the next chunk at the latest: nothing is refused but while the client sends.
    signal.throwIfAborted()
    size += chunk.length
    if (size > limits.totalBytes) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: limits.fileBytes })
    if (!parser.write(chunk)) await once(parser, 'drain', { signal })
  }
  parser.end()
  await once(parser, 'close', { signal })
}

function openParser(event: H3Event, { fileBytes: fileSize, files }: MultipartLimits): busboy.Busboy {
  const type = event.req.headers.get('content-type') ?? ''
  if (!/^multipart\/form-data\s*(?:;|$)/i.test(type)) throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'multipart/form-data' })
  try {
    return busboy({
      headers: { 'content-type': type },
      // Browsers and curl send names in UTF-8; the default would read them as latin1.
      defParamCharset: 'utf8',
      // The path part of a name is cut off where names are cleaned, and there for both kinds of slashes.
      preservePath: true,
      highWaterMark: 1 << 20,
      fileHwm: 1 << 20,
      // One byte more than allowed, so that staging sees the excess and not a silently cut file.
      limits: {
        fileSize: fileSize + 1,
        files,
        fields: maxFields,
        fieldSize: maxFieldBytes,
        parts: files + maxFields + 1,
        headerPairs: 100,
      },
    })
  } catch (error) {
    throw invalid('', `not a multipart body: ${(error as Error).message}`)
  }
}

/** Browsers, curl and our own client escape these three in names, and nothing else: not even the percent sign (WHATWG). */
const unescapeName = (name: string): string => name.replaceAll('%22', '"').replaceAll('%0D', '\r').replaceAll('%0A', '\n')

const malformed = (error: unknown): AppError => invalid('', `the body ended early or is malformed: ${(error as Error).message}`)
