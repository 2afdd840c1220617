/** Signing in to S3 (AWS Signature Version 4), and what its servers mean by their errors. */
import { AwsV4Signer } from 'aws4fetch'
import { type SourceAddress, SourceFailure, type SourceFailureCode } from '../../ports/source-type.ts'
import { headerOf, type Raw, Refused, refusal, type SignIn, waitOf } from '../http/requests.ts'
import { readXml } from './xml.ts'

const nowhere = 'The bucket is at another address'
const unsigned = 'The source refuses the signature: the secret of the access key (the password) is wrong.'
const failed = 'The source fails for a reason of its own.'

/** What a code means; whether another try could end better. */
const meanings: Readonly<Record<string, readonly [code: SourceFailureCode, message: string | undefined, retry?: true]>> = {
  NoSuchBucket: ['SOURCE_NOT_FOUND_THERE', 'There is no bucket of this name.'],
  NoSuchKey: ['SOURCE_NOT_FOUND_THERE', undefined],
  AccessDenied: [
    'SOURCE_FORBIDDEN',
    'The access key may not do this: it needs s3:ListBucket on the bucket and s3:GetObject on what is in it.',
  ],
  AllAccessDisabled: ['SOURCE_FORBIDDEN', undefined],
  AccountProblem: ['SOURCE_FORBIDDEN', undefined],
  InvalidObjectState: ['SOURCE_FORBIDDEN', 'The object is archived: it has to be restored before it can be read.'],
  InvalidAccessKeyId: ['SOURCE_UNAUTHORIZED', 'The source does not know the id of the access key (the username).'],
  SignatureDoesNotMatch: ['SOURCE_UNAUTHORIZED', unsigned],
  AuthorizationHeaderMalformed: ['SOURCE_UNAUTHORIZED', undefined],
  InvalidToken: ['SOURCE_UNAUTHORIZED', 'The access key is a temporary one: it needs a token, which sources do not have.'],
  ExpiredToken: ['SOURCE_UNAUTHORIZED', 'The access key has expired.'],
  RequestTimeTooSkewed: ['SOURCE_FORBIDDEN', 'The clock of this machine and that of the source are too far apart: set them right.'],
  RequestExpired: ['SOURCE_FORBIDDEN', 'The clock of this machine and that of the source are too far apart: set them right.'],
  SlowDown: ['SOURCE_BUSY', undefined, true],
  ServiceUnavailable: ['SOURCE_BUSY', undefined, true],
  RequestLimitExceeded: ['SOURCE_BUSY', undefined, true],
  InternalError: ['SOURCE_UNREACHABLE', failed, true],
  RequestTimeout: ['SOURCE_UNREACHABLE', 'The source does not answer in time.', true],
  PermanentRedirect: ['SOURCE_ADDRESS_INVALID', `${nowhere}.`],
  TemporaryRedirect: ['SOURCE_ADDRESS_INVALID', `${nowhere}.`],
  PreconditionFailed: ['CONTENT_MISMATCH', 'The object changed since it was listed.'],
}

/** The codes of those who were sent a signature for the wrong region. */
const regional = ['AuthorizationHeaderMalformed', 'PermanentRedirect', 'TemporaryRedirect', 'IllegalLocationConstraintException', '']

/**
 * Signs each request; without a username it is sent as anybody's. A server that names another region than that of the signature gets one for that.
 * Throws SourceFailure SOURCE_ADDRESS_INVALID where the username cannot be that of a key. `timeout`: milliseconds for an error to come.
 */
export function bySignature(
  { username, password }: Pick<SourceAddress, 'username' | 'password'>,
  startRegion: string,
  timeout: number,
): SignIn {
  if (username !== null && !/^[\x21-\x7e]+$/.test(username))
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', 'The username is not the id of an access key.')
  let region = startRegion
  const keys = new Map<string, ArrayBuffer>()

  async function signature(method: string, url: URL, signedRegion: string): Promise<Record<string, string>> {
    if (username === null) return {}
    const secretAccessKey = password ?? ''
    const options = { method, url: url.href, accessKeyId: username, secretAccessKey, service: 's3', region: signedRegion, cache: keys }
    return Object.fromEntries((await new AwsV4Signer(options).sign()).headers)
  }

  return {
    async send({ method }, url, once) {
      for (let attempt = 1; ; attempt++) {
        const used = region
        const raw = await once(await signature(method, url, used))
        if (raw.statusCode >= 200 && raw.statusCode < 300) return raw
        // Where it leads is judged by whoever follows it.
        if (raw.statusCode < 400 && headerOf(raw, 'location') !== undefined) return raw
        const error = await errorOf(raw, timeout)
        const other = error.region !== null && error.region !== used && regional.includes(error.code) ? error.region : null
        if (username === null || other === null || attempt > 1) throw failureFor(raw, error)
        // Unless another request has been told meanwhile.
        if (region === used) region = other
      }
    },
  }
}

interface S3Error {
  /** '' where the answer has none */
  readonly code: string
  readonly region: string | null
}

/** What an answer that is no success says. */
async function errorOf(raw: Raw, timeout: number): Promise<S3Error> {
  const found = new Map<string, string>()
  const late = setTimeout(() => raw.body.destroy(), timeout)
  try {
    await readXml(raw.body, 'Error', (path, text) => void found.set(path, text))
  } catch {
    // A page of a proxy, or nothing: then the status says what there is to say.
  } finally {
    clearTimeout(late)
    raw.body.on('error', () => {}).destroy()
  }
  const region = headerOf(raw, 'x-amz-bucket-region') ?? found.get('Error/Region') ?? ''
  return { code: found.get('Error/Code')?.trim() ?? '', region: /^[a-z0-9-]{1,40}$/.test(region) ? region : null }
}

function failureFor(raw: Raw, { code, region }: S3Error): Refused {
  const isElsewhere = raw.statusCode < 400 || code === 'PermanentRedirect' || code === 'TemporaryRedirect'
  if (isElsewhere) {
    const where = region === null ? nowhere : `The bucket is in the region ${region}`
    return new Refused('SOURCE_ADDRESS_INVALID', `${where}: use the address of the server there.`, false)
  }
  const meaning = Object.hasOwn(meanings, code) ? meanings[code] : undefined
  if (meaning) return new Refused(meaning[0], meaning[1], meaning[2] ?? false, waitOf(raw))
  if (raw.statusCode === 412) return new Refused('CONTENT_MISMATCH', meanings.PreconditionFailed?.[1], false)
  if (raw.statusCode === 500) return new Refused('SOURCE_UNREACHABLE', failed, true)
  return refusal(raw)
}
