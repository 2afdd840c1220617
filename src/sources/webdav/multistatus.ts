/** Parses PROPFIND responses (RFC 4918, 13) as a stream. A response may hold 100,000 entries. */

import { InvalidXml, readXml } from '../../xml.ts'
import { isStorableTime, normalizeEtag } from '../http/responses.ts'

export interface DavResource {
  /** as sent */
  readonly href: string
  /** 200 if properties were sent, else the status of the entry */
  readonly status: number
  readonly isFolder: boolean
  readonly size: number | null
  readonly etag: string | null
  /** in milliseconds since 1970 */
  readonly modifiedAt: number | null
  /** has the properties of ownCloud and Nextcloud */
  readonly isOwnCloud: boolean
}

const maxPropstats = 16
const format = { root: 'multistatus', label: 'a WebDAV list', maxBodyBytes: 512 << 20, maxChildLength: 1 << 20 }

/** Properties by path and namespace. */
const properties = new Map([
  ['response/propstat/prop/resourcetype/collection DAV:', 'collection'],
  ['response/propstat/prop/getcontentlength DAV:', 'size'],
  ['response/propstat/prop/getetag DAV:', 'etag'],
  ['response/propstat/prop/getlastmodified DAV:', 'time'],
  ['response/propstat/prop/id http://owncloud.org/ns', 'id'],
  ['response/propstat/prop/permissions http://owncloud.org/ns', 'permissions'],
])
type Properties = Partial<Record<string, string>>

/** Parses a response to its end. Throws InvalidXml for anything but a complete multistatus. */
export function readMultistatus(
  body: AsyncIterable<Uint8Array>,
  contentType: string,
  onResource: (resource: DavResource) => void,
): Promise<void> {
  let response = emptyResponse()
  let propstat = { status: '', properties: {} as Properties }
  return readXml(body, { ...format, contentType }, (path, text, namespace) => {
    if (path === 'response/href') response.hrefs.push(text.trim())
    else if (path === 'response/status') response.ownStatus = text
    else if (path === 'response/propstat/status') propstat.status = text
    else if (path === 'response/propstat') {
      if (++response.propstats > maxPropstats) throw new InvalidXml('The response has an entry with too many statuses.')
      const status = parseStatus(propstat.status)
      if (isSuccess(status)) Object.assign(response.properties, propstat.properties)
      response.status = isSuccess(status) ? 200 : response.status || status
      propstat = { status: '', properties: {} }
    } else if (path === 'response') {
      onResource(toResource(response))
      response = emptyResponse()
    } else {
      const property = properties.get(`${path} ${namespace}`)
      if (property) propstat.properties[property] = text.trim()
    }
  })
}

const emptyResponse = () => ({
  hrefs: [] as string[],
  ownStatus: null as string | null,
  /** status of the propstats: 200 if one succeeded */
  status: 0,
  propstats: 0,
  properties: {} as Properties,
})

function toResource({ hrefs, ownStatus, status, properties }: ReturnType<typeof emptyResponse>): DavResource {
  const own = ownStatus === null ? status : parseStatus(ownStatus)
  const { collection, size = '', etag, time = '', id, permissions } = ownStatus === null ? properties : {}
  const modifiedAt = Date.parse(time)
  return {
    // An entry with several hrefs has no unambiguous name.
    href: hrefs.length === 1 ? (hrefs[0] as string) : '',
    status: isSuccess(own) ? 200 : own,
    isFolder: collection !== undefined,
    size: /^\d{1,15}$/.test(size) ? Number(size) : null,
    etag: normalizeEtag(etag),
    modifiedAt: isStorableTime(modifiedAt) ? modifiedAt : null,
    isOwnCloud: Boolean(id && permissions),
  }
}

const parseStatus = (line: string): number => Number(/^\s*HTTP\/[\d.]+\s+(\d{3})/.exec(line)?.[1] ?? 0)
const isSuccess = (status: number): boolean => status >= 200 && status < 300
