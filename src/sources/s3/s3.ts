/** A bucket of an S3-compatible server, or what is in it below a prefix: AWS, MinIO, Ceph, Garage, Swift and their like. */
import {
  type SourceAddress,
  type SourceConnection,
  type SourceEntry,
  SourceFailure,
  type SourceLimits,
  type SourceType,
} from '../../ports/source-type.ts'
import { readBody } from '../http/body.ts'
import { probe } from '../http/probe.ts'
import { openRequests } from '../http/requests.ts'
import { checkHost, type Guard } from '../http/ssrf-guard.ts'
import { objectUrl, placeOf } from './address.ts'
import { listPage } from './listing.ts'
import { bySignature } from './signature.ts'

/** Pages in a row without a name, after which the list is taken for one without an end. */
const maxEmptyPages = 100

export const s3: SourceType = { open: (address, limits) => openS3(address, limits) }

/** The same with another way to look up names. */
export function openS3(address: SourceAddress, limits: SourceLimits, lookup?: Guard['lookup']): SourceConnection {
  const place = placeOf(address.url)
  const guard = { allowPrivateNetworks: limits.allowPrivateNetworks, lookup }
  checkHost(place.bucket.hostname, guard)
  const requests = openRequests(place.bucket, bySignature(address, place.region, limits.timeoutMs), limits, guard)

  async function* walk({ signal }: { signal: AbortSignal }, tries?: number): AsyncGenerator<SourceEntry> {
    let token: string | null = null
    /** the first name of an earlier page */
    let mark: string | null = null
    let isAny = false
    let empty = 0
    for (let pages = 1; ; pages++) {
      const { entries, first, next } = await listPage(requests, place, { token, recursive: address.recursive, signal, tries })
      if (first !== null) isAny = true
      for (const entry of entries) {
        signal.throwIfAborted()
        // A server that does not know delimiters lists all there is.
        if (!address.recursive && entry.kind !== 'problem' && isDeeper(entry)) continue
        yield entry
      }
      signal.throwIfAborted()
      if (next === null) break
      empty = first === null ? empty + 1 : 0
      if (next === token || empty > maxEmptyPages || (first !== null && first === mark))
        throw new SourceFailure('SOURCE_PROTOCOL', 'The list goes in circles, or has no end.')
      // Each mark stays for twice as many pages as the one before, so that a circle of any length comes by it.
      if (Number.isInteger(Math.log2(pages))) mark = first
      token = next
    }
    if (!isAny && place.prefix !== '') throw new SourceFailure('SOURCE_NOT_FOUND_THERE', 'The bucket holds nothing below this prefix.')
    yield { kind: 'folder', path: '', etag: null, isPruned: false }
  }

  return {
    walk: (options) => walk(options),
    read: async (file, signal) => {
      const url = objectUrl(place, place.prefix + file.path)
      const condition = file.etag === null ? undefined : { 'if-match': file.etag }
      const body = await readBody(requests, url, file, limits.maxFileBytes, signal, condition)
      // Lists tell the time to the millisecond, headers to the second, and not all of them round alike.
      return body.etag !== null && body.etag === file.etag ? { ...body, modifiedAt: file.modifiedAt } : body
    },
    test: (signal) => probe(place.bucket, guard, signal, requests, (options) => walk(options, 1)),
    close: () => requests.close(),
  }
}

const isDeeper = (entry: Exclude<SourceEntry, { kind: 'problem' }>): boolean =>
  entry.kind === 'folder' ? entry.path !== '' : entry.file.path.includes('/')
