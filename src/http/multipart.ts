/** Multipart bodies, read as they come: files go to `receive` as streams, fields are collected. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import busboy from 'busboy'
import type { H3Event } from 'h3'
import { AppError, invalid } from '../errors.ts'

export interface MultipartLimits {
  /** bytes of one file */
  fileSize: number
  files: number
  /** bytes of the whole body */
  total: number
}

export interface Part {
  field: string
  filename: string
  source: Readable
}

/** Field values by name; of a repeated field the last counts. */
export type Fields = Record<string, string>

/**
 * Reads the body to its end. `receive` is awaited for every file part before the answer; the first failure, an aborted connection
 * included, ends everything and is thrown. Throws UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, VALIDATION_ERROR.
 */
export async function readMultipart(event: H3Event, limits: MultipartLimits, receive: (part: Part) => Promise<void>): Promise<Fields> {
  if (Number(event.req.headers.get('content-length') ?? 0) > limits.total)
    throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: limits.fileSize })
  const parser = openParser(event, limits)
  const stop = new AbortController()
  const fields: Fields = Object.create(null)
  const received: Promise<void>[] = []
  const refuse = (error: unknown) => stop.abort(error)

  parser.on('field', (name, value, { valueTruncated, nameTruncated }) => {
    if (valueTruncated || nameTruncated) refuse(invalid(name, 'is too long'))
    else if (value.includes('\0')) refuse(invalid(name, 'holds the character U+0000'))
    else fields[name] = value
  })
  parser.on('file', (field, source, { filename }) => {
    // Without a listener an error of the part (a cut connection) would be an uncaught one.
    source.on('error', () => {})
    const done = receive({ field, filename: filename ?? '', source })
    received.push(done)
    done.catch((error) => {
      refuse(error)
      source.resume()
    })
  })
  parser.on('filesLimit', () => refuse(invalid('files', `at most ${limits.files}`)))
  parser.on('fieldsLimit', () => refuse(invalid('', 'too many fields')))
  parser.on('partsLimit', () => refuse(invalid('', 'too many parts')))

  try {
    await pipeline(bodyOf(event), parser, { signal: stop.signal })
  } catch (error) {
    refuse(broken(error))
  }
  await Promise.allSettled(received)
  if (stop.signal.aborted) throw stop.signal.reason
  return fields
}

function openParser(event: H3Event, { fileSize, files }: MultipartLimits): busboy.Busboy {
  const type = event.req.headers.get('content-type') ?? ''
  if (!/^multipart\/form-data/i.test(type)) throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'multipart/form-data' })
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
      limits: { fileSize: fileSize + 1, files, fields: 50, fieldSize: 64 << 10, parts: files + 51, headerPairs: 100 },
    })
  } catch (error) {
    throw invalid('', `not a multipart body: ${(error as Error).message}`)
  }
}

/** The socket's own stream where there is one: it spares a copy through web streams. */
function bodyOf(event: H3Event): Readable {
  const request = event.runtime?.node?.req as Readable | undefined
  if (request) return request
  return event.req.body ? Readable.fromWeb(event.req.body as import('node:stream/web').ReadableStream) : Readable.from([])
}

const broken = (error: unknown): unknown =>
  error instanceof AppError || (error as Error).name === 'AbortError'
    ? error
    : invalid('', `the body ended early or is malformed: ${(error as Error).message}`)
