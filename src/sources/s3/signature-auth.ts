/** Authenticates S3 requests and interprets S3 error codes. */

import { type SourceAddress, SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import { openSigner, S3Error } from '../../s3/signed-requests.ts'
import type { Authenticator } from '../http/http-client.ts'
import { parseRetryAfter, ResponseFailure, toResponseFailure } from '../http/responses.ts'

const wrongSecret = 'The source refuses the signature: the secret of the access key (the password) is wrong.'
const serverError = 'The source reports an internal error.'

interface ErrorMeaning {
  readonly code: SourceFailureCode
  readonly message?: string
  readonly isRetryable?: true
}

const errorMeanings: Readonly<Record<string, ErrorMeaning>> = {
  NoSuchBucket: { code: 'SOURCE_NOT_FOUND_THERE', message: 'There is no bucket of this name.' },
  NoSuchKey: { code: 'SOURCE_NOT_FOUND_THERE' },
  AccessDenied: {
    code: 'SOURCE_FORBIDDEN',
    message: 'The access key lacks a permission: it needs s3:ListBucket on the bucket and s3:GetObject on its objects.',
  },
  AllAccessDisabled: { code: 'SOURCE_FORBIDDEN' },
  AccountProblem: { code: 'SOURCE_FORBIDDEN' },
  InvalidObjectState: { code: 'SOURCE_FORBIDDEN', message: 'The object is archived: restore it before the next sync.' },
  InvalidAccessKeyId: { code: 'SOURCE_UNAUTHORIZED', message: 'The source does not know the access key id (the username).' },
  SignatureDoesNotMatch: { code: 'SOURCE_UNAUTHORIZED', message: wrongSecret },
  AuthorizationHeaderMalformed: { code: 'SOURCE_UNAUTHORIZED' },
  InvalidToken: {
    code: 'SOURCE_UNAUTHORIZED',
    message: 'The access key is temporary: it needs a session token, which sources do not support.',
  },
  ExpiredToken: { code: 'SOURCE_UNAUTHORIZED', message: 'The access key has expired.' },
  RequestTimeTooSkewed: {
    code: 'SOURCE_FORBIDDEN',
    message: 'The clocks of this machine and of the source differ too much: correct them.',
  },
  RequestExpired: { code: 'SOURCE_FORBIDDEN', message: 'The clocks of this machine and of the source differ too much: correct them.' },
  SlowDown: { code: 'SOURCE_BUSY', isRetryable: true },
  ServiceUnavailable: { code: 'SOURCE_BUSY', isRetryable: true },
  RequestLimitExceeded: { code: 'SOURCE_BUSY', isRetryable: true },
  InternalError: { code: 'SOURCE_UNREACHABLE', message: serverError, isRetryable: true },
  RequestTimeout: { code: 'SOURCE_UNREACHABLE', message: 'The source does not answer in time.', isRetryable: true },
  PreconditionFailed: { code: 'CONTENT_MISMATCH', message: 'The object changed since it was listed.' },
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
  if (meaning) {
    const { code, message, isRetryable } = meaning
    return new ResponseFailure(code, message, { isRetryable, retryAfterMs: parseRetryAfter(response) })
  }
  if (status === 412) return new ResponseFailure('CONTENT_MISMATCH', errorMeanings.PreconditionFailed?.message)
  if (status === 500) return new ResponseFailure('SOURCE_UNREACHABLE', serverError, { isRetryable: true })
  return toResponseFailure(response)
}
