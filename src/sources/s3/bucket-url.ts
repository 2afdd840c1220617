/** Parses the address of a bucket: server, bucket, region and prefix. */

import { SourceFailure } from '../../ports/source-type.ts'
import { decodePath, folderUrl } from '../http/urls.ts'

export interface BucketLocation {
  /** URL of the bucket, used for listings */
  readonly bucket: URL
  /** prefix of all keys; '' or with a trailing `/` */
  readonly prefix: string
  /** signing region if the address states it */
  readonly region: string
}

/** Region expected by servers without regions. */
const defaultRegion = 'us-east-1'
/** Hosts of AWS and of providers with the same scheme: [bucket.]s3.region.…, sometimes without the region. */
const awsHostPattern =
  /^(?:(?<bucket>.+)\.)?s3(?:-fips)?(?:\.dualstack)?(?:[.-](?<region>[a-z0-9-]+))?\.(?:amazonaws\.com(?:\.cn)?|wasabisys\.com|backblazeb2\.com|scw\.cloud|io\.cloud\.ovh\.(?:net|us))$/
/** [bucket.]region.… */
const regionHostPattern =
  /^(?:(?<bucket>.+)\.)?(?<region>[a-z0-9-]+)\.(?:digitaloceanspaces\.com|linodeobjects\.com|your-objectstorage\.com)$/

/** Throws SourceFailure SOURCE_ADDRESS_INVALID. */
export function parseBucketUrl(address: string): BucketLocation {
  const url = folderUrl(address)
  const { bucket, region = defaultRegion } = (awsHostPattern.exec(url.hostname) ?? regionHostPattern.exec(url.hostname))?.groups ?? {}
  const [first, ...rest] = decodePath(url.pathname) ?? []
  if (bucket !== undefined) return { bucket: new URL(url.origin), prefix: joinPrefix([first, ...rest]), region: normalizeRegion(region) }
  if (first === undefined || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/.test(first))
    throw new SourceFailure(
      'SOURCE_ADDRESS_INVALID',
      'The address has no bucket. Use https://server/bucket/prefix or https://bucket.s3.region.amazonaws.com/prefix.',
    )
  return { bucket: new URL(`/${first}`, url), prefix: joinPrefix(rest), region: normalizeRegion(region) }
}

const joinPrefix = (parts: readonly (string | undefined)[]): string =>
  parts
    .filter((part) => part !== undefined)
    .map((part) => `${part}/`)
    .join('')

/** Maps host labels that are not region names. */
const normalizeRegion = (region: string): string => (['accelerate', 'external-1', 'dualstack'].includes(region) ? defaultRegion : region)
