/** Authenticates S3 requests (AWS Signature Version 4) and interprets S3 error codes. */

import { AwsV4Signer } from 'aws4fetch'
import { type SourceAddress, SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import type { Authenticator } from '../http/http-client.ts'
import { getHeader, parseRetryAfter, type RawResponse, ResponseFailure, toResponseFailure } from '../http/responses.ts'
import { readXml } from '../http/xml.ts'

const otherAddress = 'The bucket is at another address'
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
  PermanentRedirect: ['SOURCE_ADDRESS_INVALID', `${otherAddress}.`],
  TemporaryRedirect: ['SOURCE_ADDRESS_INVALID', `${otherAddress}.`],
  PreconditionFailed: ['CONTENT_MISMATCH', 'The object changed since it was listed.'],
}

/** Error codes after a signature for the wrong region. */
const regionErrorCodes = [
  'AuthorizationHeaderMalformed',
  'PermanentRedirect',
  'TemporaryRedirect',
  'IllegalLocationConstraintException',
  '',
]

/**
 * Signs requests; without a username sends them anonymously. Signs again where the server names another region. Throws SourceFailure
 * SOURCE_ADDRESS_INVALID for an invalid key id. `timeout`: milliseconds for reading an error body.
 */
export function signatureAuth(
  { username, password }: Pick<SourceAddress, 'username' | 'password'>,
  startRegion: string,
  timeout: number,
): Authenticator {
  if (username !== null && !/^[\x21-\x7e]+$/.test(username))
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', 'The username is not the id of an access key.')
  let region = startRegion
  const keys = new Map<string, ArrayBuffer>()

  async function sign(method: string, url: URL, signedRegion: string): Promise<Record<string, string>> {
    if (username === null) return {}
    const secretAccessKey = password ?? ''
    const options = { method, url: url.href, accessKeyId: username, secretAccessKey, service: 's3', region: signedRegion, cache: keys }
    return Object.fromEntries((await new AwsV4Signer(options).sign()).headers)
  }

  return {
    async send({ method }, url, sendOnce) {
      for (let attempt = 1; ; attempt++) {
        const signedRegion = region
        const raw = await sendOnce(await sign(method, url, signedRegion))
        if (raw.statusCode >= 200 && raw.statusCode < 300) return raw
        // The HTTP client decides about redirects.
        if (raw.statusCode < 400 && getHeader(raw, 'location') !== undefined) return raw
        const error = await parseError(raw, timeout)
        const correctRegion =
          error.region !== null && error.region !== signedRegion && regionErrorCodes.includes(error.code) ? error.region : null
        if (username === null || correctRegion === null || attempt > 1) throw toFailure(raw, error)
        // A concurrent request may have changed it already.
        if (region === signedRegion) region = correctRegion
      }
    },
  }
}

const errorFormat = { root: 'Error', label: 'an S3 error', maxBodyBytes: 1 << 20, maxChildLength: 64 << 10 }

interface S3Error {
  /** '' for none */
  readonly code: string
  readonly region: string | null
}

/** Parses the body of an error response. */
async function parseError(raw: RawResponse, timeout: number): Promise<S3Error> {
  const fields = new Map<string, string>()
  const timer = setTimeout(() => raw.body.destroy(), timeout)
  try {
    await readXml(raw.body, errorFormat, (path, text) => void fields.set(path, text))
  } catch {
    // The body is no S3 error: the status decides.
  } finally {
    clearTimeout(timer)
    raw.body.on('error', () => {}).destroy()
  }
  const region = getHeader(raw, 'x-amz-bucket-region') ?? fields.get('Region') ?? ''
  return { code: fields.get('Code')?.trim() ?? '', region: /^[a-z0-9-]{1,40}$/.test(region) ? region : null }
}

function toFailure(raw: RawResponse, { code, region }: S3Error): ResponseFailure {
  const isElsewhere = raw.statusCode < 400 || code === 'PermanentRedirect' || code === 'TemporaryRedirect'
  if (isElsewhere) {
    const where = region === null ? otherAddress : `The bucket is in the region ${region}`
    return new ResponseFailure('SOURCE_ADDRESS_INVALID', `${where}: use the address of the server there.`, false)
  }
  const meaning = Object.hasOwn(errorMeanings, code) ? errorMeanings[code] : undefined
  if (meaning) return new ResponseFailure(meaning[0], meaning[1], meaning[2] ?? false, parseRetryAfter(raw))
  if (raw.statusCode === 412) return new ResponseFailure('CONTENT_MISMATCH', errorMeanings.PreconditionFailed?.[1], false)
  if (raw.statusCode === 500) return new ResponseFailure('SOURCE_UNREACHABLE', serverError, true)
  return toResponseFailure(raw)
}
