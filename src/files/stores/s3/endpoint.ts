/** Connections to the endpoint of a bucket, and the signer of their requests. */
import { Pool } from 'undici'
import { loadAuthorities } from '../../../certificates.ts'
import { environment } from '../../../config/environment.ts'
import type { Config } from '../../../config/schema.ts'
import { openInstanceCredentials } from '../../../s3/instance-credentials.ts'
import { openSigner, type Signer } from '../../../s3/signed-requests.ts'

const connectTimeoutMs = 5000
/** Time without a byte after which a download is broken off. */
const bodyTimeoutMs = 30_000
const maxConnections = 256

/** Opens the connections. The caller closes the pool. Throws ConfigError if the certificate file cannot be read. */
export function openEndpoint(storage: Config['storage'], url: URL): { pool: Pool; signer: Signer } {
  const pool = new Pool(url.origin, {
    connect: {
      timeout: connectTimeoutMs,
      ...(storage.s3_ca_file === '' ? {} : { ca: loadAuthorities('storage.s3_ca_file', storage.s3_ca_file) }),
    },
    connections: maxConnections,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: bodyTimeoutMs,
  })
  const { s3_access_key_id: accessKeyId, s3_secret_access_key: secretAccessKey, s3_session_token } = storage
  const region = storage.s3_region || 'us-east-1'
  const signer = openSigner(
    storage.s3_credentials === 'instance'
      ? openInstanceCredentials({ variables: environment(), region })
      : { accessKeyId, secretAccessKey, ...(s3_session_token === '' ? {} : { sessionToken: s3_session_token }) },
    region,
  )
  return { pool, signer }
}

/** Returns the URL of the bucket. */
export function bucketUrl({ s3_endpoint, s3_region, s3_bucket, s3_force_path_style }: Config['storage']): URL {
  const endpoint = new URL(s3_endpoint || `https://s3.${s3_region || 'us-east-1'}.amazonaws.com`)
  // Certificates of *.example.org do not cover names with dots.
  if (s3_force_path_style || s3_bucket.includes('.')) return new URL(`${endpoint.pathname.replace(/\/$/, '')}/${s3_bucket}`, endpoint)
  endpoint.hostname = `${s3_bucket}.${endpoint.hostname}`
  return endpoint
}
