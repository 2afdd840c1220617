/** The bytes of one file, held against what the listing and the answer promised. */
import { type SourceBody, SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import { plainTag } from '../webdav/multistatus.ts'
import { type Answer, failureOf, type Requests } from './requests.ts'

/** Names under which HTML is what one expects; a name without any ending may be anything. */
const isHtmlName = (path: string) => /\.(html?|xhtml|xht|shtml|mht|mhtml|php|aspx?|jsp|cgi)$/i.test(path) || !/\.[^/]*$/.test(path)

/** Opens the file at `url`, and sends these headers besides. Throws SourceFailure. */
export async function readBody(
  requests: Requests,
  url: URL,
  file: SourceFile,
  maxSize: number,
  signal: AbortSignal,
  headers?: Readonly<Record<string, string>>,
): Promise<SourceBody> {
  const tooLarge = () => new SourceFailure('FILE_TOO_LARGE')
  if ((file.size ?? 0) > maxSize) throw tooLarge()
  const answer = await requests.send({ method: 'GET', url, headers, signal })
  try {
    const promise = promised(answer, file)
    if ((promise.size ?? 0) > maxSize) throw tooLarge()
    return {
      bytes: checked(answer.body, promise.size, maxSize, signal),
      // Of what ended because the connection did nobody knows whether it is whole: without marks it is fetched again next time.
      etag: promise.isFramed && file.etag !== null ? promise.etag : null,
      modifiedAt: promise.isFramed ? promise.modifiedAt : null,
    }
  } catch (error) {
    answer.drop()
    throw error
  }
}

interface Promised {
  /** bytes; null where nobody says */
  readonly size: number | null
  readonly etag: string | null
  readonly modifiedAt: Date | null
  /** whether the end of the body can be told from a connection that broke */
  readonly isFramed: boolean
}

function promised(answer: Answer, file: SourceFile): Promised {
  if (answer.status !== 200) throw mismatch(`The source answers a download with status ${answer.status}.`)
  const length = answer.header('content-length')
  const size = length === undefined ? null : Number(length)
  const etag = plainTag(answer.header('etag'))
  const time = Date.parse(answer.header('last-modified') ?? '')
  const isSame = etag !== null && etag === file.etag
  const isOther =
    etag !== null && file.etag !== null ? !isSame : !Number.isNaN(time) && file.modifiedAt !== null && time !== file.modifiedAt.getTime()
  const type = answer.header('content-type') ?? ''
  if (/^\s*(text\/html|application\/xhtml\+xml)\b/i.test(type) && !isSame && !isHtmlName(file.path))
    throw mismatch('A web page came instead of the file: is a sign-in page in between?')
  const isChunked = /\bchunked\b/i.test(answer.header('transfer-encoding') ?? '')
  // It changed since it was listed: then the answer's own promise holds.
  const expected = isOther && (size !== null || isChunked) ? size : (file.size ?? size)
  const encoding = (answer.header('content-encoding') ?? 'identity').trim().toLowerCase()
  if (encoding !== 'identity' && (isOther || file.size === null)) throw mismatch('The file came compressed, though that was not asked for.')
  if (size !== null && size !== expected) throw mismatch(`The source lists ${expected} bytes and announces ${size}.`)
  return {
    size: expected,
    etag: etag ?? file.etag,
    modifiedAt: Number.isNaN(time) ? file.modifiedAt : new Date(time),
    isFramed: expected !== null || isChunked,
  }
}

async function* checked(body: Answer['body'], size: number | null, maxSize: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  let got = 0
  try {
    for await (const piece of body) {
      got += piece.length
      if (size !== null && got > size) throw mismatch(`More than the promised ${size} bytes came.`)
      if (got > maxSize) throw new SourceFailure('FILE_TOO_LARGE')
      yield piece
    }
  } catch (error) {
    signal.throwIfAborted()
    const failure = failureOf(error)
    // The answer had begun: whatever ended it, the file is not whole.
    throw failure.isRetryable
      ? new SourceFailure('CONTENT_MISMATCH', `The download broke off after ${got} bytes. ${failure.message}`, true)
      : failure
  }
  if (size !== null && got < size) throw mismatch(`${got} of the promised ${size} bytes came.`)
}

const mismatch = (message: string) => new SourceFailure('CONTENT_MISMATCH', message, true)
