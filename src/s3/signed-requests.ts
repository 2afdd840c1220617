/** Signs S3 requests (AWS Signature Version 4), finds the region of a bucket, and parses error responses. */
import { AwsV4Signer } from 'aws4fetch'
import type { Dispatcher } from 'undici'
import { readXml } from '../xml.ts'

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** of temporary credentials */
  readonly sessionToken?: string
}

export interface Signer {
  /**
   * Sends a request through `sendOnce`, signed; once more if the server names another region. Returns a response with status 2xx, or a redirect.
   * Throws S3Error. `timeoutMs` limits reading the body of an error.
   */
  send(
    request: { readonly method: string; readonly headers?: Readonly<Record<string, string>> },
    url: URL,
    sendOnce: (headers: Readonly<Record<string, string>>) => Promise<Dispatcher.ResponseData>,
    timeoutMs: number,
  ): Promise<Dispatcher.ResponseData>
  /** Returns a URL that anybody can GET for some seconds. */
  presign(url: URL, seconds: number): Promise<URL>
}

/** An error response. */
export class S3Error extends Error {
  readonly response: Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>
  readonly status: number
  /** '' for none, as after HEAD */
  readonly code: string
  /** region of the bucket if the server states it */
  readonly region: string | null

  constructor(response: Dispatcher.ResponseData, code: string, region: string | null) {
    super(`S3 answers ${response.statusCode} ${code}`.trimEnd())
    this.response = response
    this.status = response.statusCode
    this.code = code
    this.region = region
  }
}

/** Error codes after a signature for the wrong region. */
const regionErrorCodes = [
  'AuthorizationHeaderMalformed',
  'PermanentRedirect',
  'TemporaryRedirect',
  'IllegalLocationConstraintException',
  '',
]

const anonymous: Credentials = { accessKeyId: '', secretAccessKey: '' }

/** Opens a signer. Without credentials it sends requests anonymously. A function returns temporary ones, valid at the time of a request. */
export function openSigner(credentials: Credentials | (() => Promise<Credentials>) | null, startRegion: string): Signer {
  let region = startRegion
  const cache = new Map<string, ArrayBuffer>()

  const sign = async (request: { method: string; url: string; headers?: Readonly<Record<string, string>>; signQuery?: boolean }) => {
    const { accessKeyId, secretAccessKey, sessionToken } =
      typeof credentials === 'function' ? await credentials() : (credentials ?? anonymous)
    return new AwsV4Signer({ ...request, accessKeyId, secretAccessKey, sessionToken, service: 's3', region, cache }).sign()
  }

  return {
    async send({ method, headers = {} }, url, sendOnce, timeoutMs) {
      for (let attempt = 1; ; attempt++) {
        const signedRegion = region
        const signed = credentials ? Object.fromEntries((await sign({ method, url: url.href, headers })).headers) : headers
        const response = await sendOnce(signed)
        if (response.statusCode >= 200 && response.statusCode < 300) return response
        if (response.statusCode < 400 && response.headers.location !== undefined) return response
        const error = await readError(response, timeoutMs)
        const isElsewhere = error.region !== null && error.region !== signedRegion && regionErrorCodes.includes(error.code)
        if (!credentials || !isElsewhere || attempt > 1) throw error
        // A concurrent request may have changed it already.
        if (region === signedRegion) region = error.region ?? region
      }
    },
    async presign(url, seconds) {
      const expiring = new URL(url)
      expiring.searchParams.set('X-Amz-Expires', String(seconds))
      return (await sign({ method: 'GET', url: expiring.href, signQuery: true })).url
    },
  }
}

const errorFormat = { root: 'Error', label: 'an S3 error', maxBodyBytes: 1 << 20, maxChildLength: 64 << 10 }

async function readError(response: Dispatcher.ResponseData, timeoutMs: number): Promise<S3Error> {
  const fields = new Map<string, string>()
  const timer = setTimeout(() => response.body.destroy(), timeoutMs)
  try {
    await readXml(response.body, errorFormat, (path, text) => void fields.set(path, text))
  } catch {
    // The body is no S3 error: the status decides.
  } finally {
    clearTimeout(timer)
    response.body.on('error', () => {}).destroy()
  }
  const region = [response.headers['x-amz-bucket-region']].flat()[0] ?? fields.get('Region') ?? ''
  return new S3Error(response, fields.get('Code')?.trim() ?? '', /^[a-z0-9-]{1,40}$/.test(region) ? region : null)
}
