/** Reads the body of one file and verifies it against the listing and the response headers. */

import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import type { HttpClient, SourceResponse } from './http-client.ts'
import { normalizeEtag, toSourceFailure } from './responses.ts'

/** Names for which HTML is plausible. A name without an extension can be anything. */
const canBeHtml = (path: string) => /\.(html?|xhtml|xht|shtml|mht|mhtml|php|aspx?|jsp|cgi)$/i.test(path) || !/\.[^/]*$/.test(path)

/** Opens the file at `url`, with additional headers. Throws SourceFailure. */
export async function readBody(
  http: HttpClient,
  url: URL,
  file: SourceFile,
  maxSize: number,
  signal: AbortSignal,
  headers?: Readonly<Record<string, string>>,
): Promise<SourceBody> {
  const fileTooLarge = () => new SourceFailure('FILE_TOO_LARGE')
  if ((file.size ?? 0) > maxSize) throw fileTooLarge()
  const answer = await http.send({ method: 'GET', url, headers, signal })
  try {
    const expected = expectBody(answer, file)
    if ((expected.size ?? 0) > maxSize) throw fileTooLarge()
    return {
      bytes: verifyBody(answer.body, expected.size, maxSize, signal),
      // Without a known end the body may be incomplete: no version, so the next sync fetches it again.
      etag: expected.isFramed && file.etag !== null ? expected.etag : null,
      modifiedAt: expected.isFramed ? expected.modifiedAt : null,
    }
  } catch (error) {
    answer.discardBody()
    throw error
  }
}

interface ExpectedBody {
  /** null: unknown */
  readonly size: number | null
  readonly etag: string | null
  readonly modifiedAt: Date | null
  /** the end of the body is distinguishable from a broken connection */
  readonly isFramed: boolean
}

function expectBody(answer: SourceResponse, file: SourceFile): ExpectedBody {
  if (answer.status !== 200) throw mismatch(`The source answers a download with status ${answer.status}.`)
  const length = answer.header('content-length')
  const size = length === undefined ? null : Number(length)
  const etag = normalizeEtag(answer.header('etag'))
  const time = Date.parse(answer.header('last-modified') ?? '')
  const hasSameEtag = etag !== null && etag === file.etag
  const hasChanged =
    etag !== null && file.etag !== null
      ? !hasSameEtag
      : !Number.isNaN(time) && file.modifiedAt !== null && time !== file.modifiedAt.getTime()
  const type = answer.header('content-type') ?? ''
  if (/^\s*(text\/html|application\/xhtml\+xml)\b/i.test(type) && !hasSameEtag && !canBeHtml(file.path))
    throw mismatch('A web page came instead of the file: is a sign-in page in between?')
  const isChunked = /\bchunked\b/i.test(answer.header('transfer-encoding') ?? '')
  // The file changed after the listing: the response headers count.
  const expected = hasChanged && (size !== null || isChunked) ? size : (file.size ?? size)
  const encoding = (answer.header('content-encoding') ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity' && (hasChanged || file.size === null))
    throw mismatch('The file came compressed, though that was not asked for.')
  if (size !== null && size !== expected) throw mismatch(`The source lists ${expected} bytes and announces ${size}.`)
  return {
    size: expected,
    etag: etag ?? file.etag,
    modifiedAt: Number.isNaN(time) ? file.modifiedAt : new Date(time),
    isFramed: expected !== null || isChunked,
  }
}

async function* verifyBody(
  body: SourceResponse['body'],
  size: number | null,
  maxSize: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let received = 0
  try {
    for await (const piece of body) {
      received += piece.length
      if (size !== null && received > size) throw mismatch(`More than the promised ${size} bytes came.`)
      if (received > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
      yield piece
    }
  } catch (error) {
    signal.throwIfAborted()
    const failure = toSourceFailure(error)
    // The response had begun, so the file is incomplete.
    throw failure.isRetryable
      ? new SourceFailure('CONTENT_MISMATCH', `The download broke off after ${received} bytes. ${failure.message}`, true)
      : failure
  }
  if (size !== null && received < size) throw mismatch(`${received} of the promised ${size} bytes came.`)
}

const mismatch = (message: string) => new SourceFailure('CONTENT_MISMATCH', message, true)
