/** Where a bucket is: which part of an address is the server, the bucket, the region and the prefix. */
import { SourceFailure } from '../../ports/source-type.ts'
import { decodedParts, folderUrl } from '../webdav/hrefs.ts'

export interface Place {
  /** the bucket's own URL: what a list is asked of */
  readonly bucket: URL
  /** what the names of all objects begin with; '' or with `/` at its end */
  readonly prefix: string
  /** that requests are signed for, as far as the address says */
  readonly region: string
}

/** Of those who say nothing else, and of most servers of one's own. */
const usualRegion = 'us-east-1'
/** The hosts of AWS and of those who name theirs alike: [bucket.]s3.region.…, in some cases without the region. */
const likeAws =
  /^(?:(?<bucket>.+)\.)?s3(?:-fips)?(?:\.dualstack)?(?:[.-](?<region>[a-z0-9-]+))?\.(?:amazonaws\.com(?:\.cn)?|wasabisys\.com|backblazeb2\.com|scw\.cloud|io\.cloud\.ovh\.(?:net|us))$/
/** [bucket.]region.… */
const byRegion = /^(?:(?<bucket>.+)\.)?(?<region>[a-z0-9-]+)\.(?:digitaloceanspaces\.com|linodeobjects\.com|your-objectstorage\.com)$/

/** Throws SourceFailure SOURCE_ADDRESS_INVALID. */
export function placeOf(address: string): Place {
  const url = folderUrl(address)
  const { bucket, region = usualRegion } = (likeAws.exec(url.hostname) ?? byRegion.exec(url.hostname))?.groups ?? {}
  const [first, ...rest] = decodedParts(url.pathname) ?? []
  if (bucket !== undefined) return { bucket: new URL(url.origin), prefix: prefixOf([first, ...rest]), region: signing(region) }
  if (first === undefined || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/.test(first))
    throw new SourceFailure(
      'SOURCE_ADDRESS_INVALID',
      'The address names no bucket: it is https://server/bucket/prefix, or https://bucket.s3.region.amazonaws.com/prefix.',
    )
  return { bucket: new URL(`/${first}`, url), prefix: prefixOf(rest), region: signing(region) }
}

/** The URL of an object. Characters that URL leaves alone and signatures do not are encoded too. */
export function objectUrl({ bucket }: Place, key: string): URL {
  const encoded = key.split('/').map(encodeKey).join('/')
  return new URL(`${bucket.origin}${bucket.pathname.replace(/\/$/, '')}/${encoded}`)
}

/** Text as it is encoded in paths and queries that are signed. */
export const encodeKey = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)

const prefixOf = (parts: readonly (string | undefined)[]): string =>
  parts
    .filter((part) => part !== undefined)
    .map((part) => `${part}/`)
    .join('')

/** The hosts of old regions and of all of them together are not called by their names. */
const signing = (region: string): string => (['accelerate', 'external-1', 'dualstack'].includes(region) ? usualRegion : region)
