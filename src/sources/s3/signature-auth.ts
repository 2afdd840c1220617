/** Authenticates S3 requests and interprets S3 error codes. */

import { type SourceAddress, SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import { openSigner, S3Error } from '../../s3/signed-requests.ts'
import type { Authenticator } from '../http/http-client.ts'
import { parseRetryAfter, ResponseFailure, toResponseFailure } from '../http/responses.ts'

const wrongSecret = 'The source refuses the signature: the secret of the access key (the password) is wrong.'
const serverError = 'The source reports an internal error.'

/** Meaning of error codes, and whether to retry. */
const errorMeanings: Readonly<Record<string, readonly [code: SourceFailureCode, message: string | undefined, retry?: true]>> = {
  NoSuchBucket: ['SOURCE_NOT_FOUND_THERE', 'There is no bucket of this name.'],
  NoSuchKey: ['SOURCE_NOT_FOUND_THERE', undefined],
  AccessDenied: [
    'SOURCE_FORBIDDEN',
    'The access key lacks a permission: it needs s3:ListBucket on the bucket and s3:GetObject on its objects.',
  ],
  AllAccessDisabled: ['SOURCE_FORBIDDEN', undefined],
  AccountProblem: ['SOURCE_FORBIDDEN', undefined],
  InvalidObjectState: ['SOURCE_FORBIDDEN', 'The object is archived: restore it before the next sync.'],
  InvalidAccessKeyId: ['SOURCE_UNAUTHORIZED', 'The source does not know the access key id (the username).'],
  SignatureDoesNotMatch: ['SOURCE_UNAUTHORIZED', wrongSecret],
  AuthorizationHeaderMalformed: ['SOURCE_UNAUTHORIZED', undefined],
  InvalidToken: ['SOURCE_UNAUTHORIZED', 'The access key is temporary: it needs a session token, which sources do not support.'],
  ExpiredToken: ['SOURCE_UNAUTHORIZED', 'The access key has expired.'],
  RequestTimeTooSkewed: ['SOURCE_FORBIDDEN', 'The clocks of this machine and of the source differ too much: correct them.'],
  RequestExpired: ['SOURCE_FORBIDDEN', 'The clocks of this machine and of the source differ too much: correct them.'],
  SlowDown: ['SOURCE_BUSY', undefined, true],
  ServiceUnavailable: ['SOURCE_BUSY', undefined, true],
  RequestLimitExceeded: ['SOURCE_BUSY', undefined, true],
  InternalError: ['SOURCE_UNREACHABLE', serverError, true],
  RequestTimeout: ['SOURCE_UNREACHABLE', 'The source does not answer in time.', true],
  PreconditionFailed: ['CONTENT_MISMATCH', 'The object changed since it was listed.'],
}

/**
 * Signs requests; without a username sends them anonymously. Throws SourceFailure SOURCE_ADDRESS_INVALID for an invalid key id. `timeoutMs`
 * limits reading an error body.
 */
export function signatureAuth(
  { username, password }: Pick<SourceAddress, 'username' | 'password'>,
  startRegion: string,
  timeoutMs: number,
): Authenticator {
  if (username !== null && !/^[\x21-\x7e]+$/.test(username))
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', 'The username is not the id of an access key.')
  const signer = openSigner(username === null ? null : { accessKeyId: username, secretAccessKey: password ?? '' }, startRegion)
  return {
    // The HTTP client decides about redirects.
    send: ({ method }, url, sendOnce) =>
      signer.send({ method }, url, sendOnce, timeoutMs).catch((error) => {
        throw error instanceof S3Error ? toFailure(error) : error
      }),
  }
}

function toFailure({ response, status, code, region }: S3Error): ResponseFailure {
  const isElsewhere = status < 400 || code === 'PermanentRedirect' || code === 'TemporaryRedirect'
  if (isElsewhere) {
    const where = region === null ? 'The bucket is at another address' : `The bucket is in the region ${region}`
    return new ResponseFailure('SOURCE_ADDRESS_INVALID', `${where}: use the address of the server there.`)
  }
  const meaning = Object.hasOwn(errorMeanings, code) ? errorMeanings[code] : undefined
  if (meaning) return new ResponseFailure(meaning[0], meaning[1], { isRetryable: meaning[2], retryAfterMs: parseRetryAfter(response) })
  if (status === 412) return new ResponseFailure('CONTENT_MISMATCH', errorMeanings.PreconditionFailed?.[1])
  if (status === 500) return new ResponseFailure('SOURCE_UNREACHABLE', serverError, { isRetryable: true })
  return toResponseFailure(response)
}
