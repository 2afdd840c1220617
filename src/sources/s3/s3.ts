/** Source type for buckets of S3-compatible servers: AWS, MinIO, Ceph, Garage, Swift and others. */
import {
  type SourceAddress,
  type SourceConnection,
  type SourceEntry,
  SourceFailure,
  type SourceLimits,
  type SourceType,
} from '../../ports/source-type.ts'
import { objectUrl } from '../../s3/urls.ts'
import { openHttpClient } from '../http/http-client.ts'
import { readBody } from '../http/read-body.ts'
import { assertHostAllowed, type Guard } from '../http/ssrf-guard.ts'
import { testServer } from '../http/test-server.ts'
import { parseBucketUrl } from './bucket-url.ts'
import { listPage } from './listing.ts'
import { signatureAuth } from './signature-auth.ts'

/** Consecutive empty pages after which a list counts as endless. */
const maxEmptyPages = 100

export const s3: SourceType = { open: (address, limits) => openS3Source(address, limits) }

/** Opens a bucket. `lookup` replaces the resolver in tests. */
export function openS3Source(address: SourceAddress, limits: SourceLimits, lookup?: Guard['lookup']): SourceConnection {
  const location = parseBucketUrl(address.url)
  const guard = { allowPrivateNetworks: limits.allowPrivateNetworks, lookup }
  assertHostAllowed(location.bucket.hostname, guard)
  const http = openHttpClient(location.bucket, signatureAuth(address, location.region, limits.timeoutMs), limits, guard)

  async function* walk({ signal }: { signal: AbortSignal }, maxAttempts?: number): AsyncGenerator<SourceEntry> {
    let token: string | null = null
    /** first key of an earlier page, to detect loops */
    let checkpoint: string | null = null
    let hasNames = false
    let emptyPages = 0
    for (let pages = 1; ; pages++) {
      const { entries, firstName, nextToken } = await listPage(http, location, { token, recursive: address.recursive, signal, maxAttempts })
      if (firstName !== null) hasNames = true
      for (const entry of entries) {
        signal.throwIfAborted()
        // Servers without support for delimiters list everything.
        if (!address.recursive && entry.kind !== 'problem' && isBelowFirstLevel(entry)) continue
        yield entry
      }
      signal.throwIfAborted()
      if (nextToken === null) break
      emptyPages = firstName === null ? emptyPages + 1 : 0
      if (nextToken === token || emptyPages > maxEmptyPages || (firstName !== null && firstName === checkpoint))
        throw new SourceFailure('SOURCE_PROTOCOL', 'The list repeats pages or never ends.')
      // Brent's algorithm: each checkpoint is kept for twice as many pages, so a loop of any length is found.
      if (Number.isInteger(Math.log2(pages))) checkpoint = firstName
      token = nextToken
    }
    if (!hasNames && location.prefix !== '')
      throw new SourceFailure('SOURCE_NOT_FOUND_THERE', 'The bucket has no objects with this prefix.')
    yield { kind: 'folder', path: '', etag: null, isPruned: false }
  }

  return {
    walk: (options) => walk(options),
    read: async (file, signal) => {
      const url = objectUrl(location.bucket, location.prefix + file.path)
      const headers = file.etag === null ? undefined : { 'if-match': file.etag }
      return readBody(http, { url, headers }, file, limits.maxFileBytes, signal)
    },
    test: (signal) => testServer({ url: location.bucket, guard, http, walk: (options) => walk(options, 1) }, signal),
    close: () => http.close(),
  }
}

const isBelowFirstLevel = (entry: Exclude<SourceEntry, { kind: 'problem' }>): boolean =>
  entry.kind === 'folder' ? entry.path !== '' : entry.file.path.includes('/')
