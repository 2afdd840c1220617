/** Reads the body of one file and verifies it against the listing and the response headers. */

import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import type { HttpClient, SourceRequest, SourceResponse } from './http-client.ts'
import { normalizeEtag, toSourceFailure } from './responses.ts'

/** Names for which HTML is plausible. A name without an extension can be anything. */
const canBeHtml = (path: string) => /\.(html?|xhtml|xht|shtml|mht|mhtml|php|aspx?|jsp|cgi)$/i.test(path) || !/\.[^/]*$/.test(path)

/** Opens the file at `url`. Throws SourceFailure. */
export async function readBody(
  http: HttpClient,
  { url, headers }: Pick<SourceRequest, 'url' | 'headers'>,
  file: SourceFile,
  maxSize: number,
  signal: AbortSignal,
): Promise<SourceBody> {
  if ((file.size ?? 0) > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
  const response = await http.send({ method: 'GET', url, headers, signal })
  try {
    const expected = expectBody(response, file)
    if ((expected.size ?? 0) > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
    return {
      bytes: verifyBody(response.body, expected.size, maxSize, signal),
      // Without a known end the body may be incomplete: no version, so the next sync fetches it again.
      etag: expected.isFramed && file.etag !== null ? expected.etag : null,
      modifiedAt: expected.isFramed ? expected.modifiedAt : null,
      discard: async () => response.discardBody(),
    }
  } catch (error) {
    response.discardBody()
    throw error
  }
}

interface ExpectedBody {
  /** null: unknown */
  readonly size: number | null
  readonly etag: string | null
  readonly modifiedAt: Date | null
  /** the end of the body is known, so that a broken connection is detected */
  readonly isFramed: boolean
}

function expectBody(response: SourceResponse, file: SourceFile): ExpectedBody {
  if (response.status !== 200) throw mismatch(`The source answers a download with status ${response.status}.`)
  const length = response.header('content-length')
  const size = length === undefined ? null : Number(length)
  const etag = normalizeEtag(response.header('etag'))
  const time = Date.parse(response.header('last-modified') ?? '')
  const hasSameEtag = etag !== null && etag === file.etag
  const hasChanged =
    etag !== null && file.etag !== null
      ? !hasSameEtag
      : !Number.isNaN(time) && file.modifiedAt !== null && time !== file.modifiedAt.getTime()
  const type = response.header('content-type') ?? ''
  if (/^\s*(text\/html|application\/xhtml\+xml)\b/i.test(type) && !hasSameEtag && !canBeHtml(file.path))
    throw mismatch('Received a web page instead of the file: is there a sign-in page?')
  const isChunked = /\bchunked\b/i.test(response.header('transfer-encoding') ?? '')
  // The file changed after the listing: the response headers count.
  const expected = hasChanged && (size !== null || isChunked) ? size : (file.size ?? size)
  const encoding = (response.header('content-encoding') ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity' && (hasChanged || file.size === null)) throw mismatch('Received a compressed file that was not requested.')
  if (size !== null && size !== expected) throw mismatch(`The source lists ${expected} bytes, but its response has ${size}.`)
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
    for await (const chunk of body) {
      received += chunk.length
      if (size !== null && received > size) throw mismatch(`Received more than the expected ${size} bytes.`)
      if (received > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
      yield chunk
    }
  } catch (error) {
    signal.throwIfAborted()
    const failure = toSourceFailure(error)
    // The response had begun, so the file is incomplete.
    throw failure.isRetryable
      ? new SourceFailure('CONTENT_MISMATCH', `The download was interrupted after ${received} bytes. ${failure.message}`, {
          isRetryable: true,
        })
      : failure
  }
  if (size !== null && received < size) throw mismatch(`Received ${received} of ${size} bytes.`)
}

const mismatch = (message: string) => new SourceFailure('CONTENT_MISMATCH', message, { isRetryable: true })
