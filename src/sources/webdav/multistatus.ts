/** Parses PROPFIND responses as a stream. A response may hold 100,000 entries, which are passed on in batches. */
import { SaxesParser, type SaxesTagNS } from 'saxes'
import { SourceFailure } from '../../ports/source-type.ts'
import { isStorableTime, normalizeEtag } from '../http/headers.ts'

export interface DavResource {
  /** as sent */
  readonly href: string
  /** 200 where properties were sent, else the status of the entry */
  readonly status: number
  readonly isFolder: boolean
  readonly size: number | null
  readonly etag: string | null
  /** in milliseconds since 1970 */
  readonly modifiedAt: number | null
  /** has the properties of ownCloud and Nextcloud */
  readonly isOwnCloud: boolean
}

/** Characters of one <response>. */
const maxResponseLength = 1 << 20
const maxBodyBytes = 512 << 20
const maxPropstats = 16
const maxDepth = 64

/** Parses a response to its end and yields batches. Throws SourceFailure SOURCE_PROTOCOL for anything but a complete multistatus. */
export async function* readMultistatus(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<DavResource[]> {
  const reader = createParser()
  for await (const text of decodeText(body, contentType)) {
    const resources = reader.read(text)
    if (resources.length > 0) yield resources
  }
  reader.end()
}

/** Decodes a body with the charset of its byte order mark, Content-Type or XML declaration. Removes leading white space. */
async function* decodeText(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<string> {
  let decoder: TextDecoder | null = null
  let total = 0
  let hasBegun = false
  try {
    for await (const bytes of body) {
      total += bytes.length
      if (total > maxBodyBytes) throw protocolFailure(`The list is larger than ${maxBodyBytes >> 20} MiB.`)
      decoder ??= new TextDecoder(detectEncoding(bytes, contentType), { fatal: true })
      const text = decoder.decode(bytes, { stream: true })
      // Some scripts send empty lines before the XML declaration, which XML forbids.
      const own: string = hasBegun ? text : text.trimStart()
      hasBegun ||= own !== ''
      if (own !== '') yield own
    }
    yield decoder?.decode() ?? ''
  } catch (error) {
    if (error instanceof RangeError || (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      throw protocolFailure('The list is in an encoding that cannot be read.')
    throw error
  }
}

function detectEncoding(start: Uint8Array, contentType: string): string {
  const [first, second] = start
  if ((first === 0xff && second === 0xfe) || (first === 0x3c && second === 0)) return 'utf-16le'
  if ((first === 0xfe && second === 0xff) || (first === 0 && second === 0x3c)) return 'utf-16be'
  const declared = /^(?:\xef\xbb\xbf)?<\?xml[^>]{0,100}\bencoding\s*=\s*["']([\w-]+)["']/.exec(
    Buffer.from(start.subarray(0, 200)).toString('latin1'),
  )
  return /;\s*charset\s*=\s*"?([\w-]+)/i.exec(contentType)?.[1] ?? declared?.[1] ?? 'utf-8'
}

/** Properties to read, by local key. */
type Properties = Partial<Record<keyof typeof propertyNames, string>>
const propertyNames = {
  type: 'DAV: resourcetype',
  size: 'DAV: getcontentlength',
  etag: 'DAV: getetag',
  time: 'DAV: getlastmodified',
  id: 'http://owncloud.org/ns id',
  permissions: 'http://owncloud.org/ns permissions',
}
const propertiesByName = new Map(Object.entries(propertyNames).map(([property, name]) => [name, property as keyof Properties]))

/**
 * Creates a parser that takes chunks of text and returns the completed entries. Depth of elements: multistatus 1; response 2; href, status and
 * propstat 3; prop and its status 4; properties 5; their contents 6.
 */
function createParser() {
  const parser = new SaxesParser({ xmlns: true, position: false })
  const openElements: string[] = []
  let isComplete = false
  /** parser position of the current response */
  let responseStart = 0
  let things: DavResource[] = []
  let text = ''
  let isCaptured = false
  let key: keyof Properties | undefined
  let hrefs: string[] = []
  let ownStatus: string | null = null
  let status = 0
  let propstats = 0
  let inner = { status: '', properties: {} as Properties }
  let properties: Properties = {}

  const isIn = (...path: string[]) => path.every((name, index) => openElements[index + 1] === name)

  function startElement({ local, uri }: SaxesTagNS): void {
    const depth = openElements.push(local)
    text = ''
    isCaptured = false
    if (depth === 1 && local !== 'multistatus') throw notWebdav()
    if (depth > maxDepth) throw protocolFailure('The list is nested too deeply.')
    if (depth === 2) [hrefs, ownStatus, status, propstats, properties] = [[], null, 0, 0, {}]
    if (depth < 3 || openElements[1] !== 'response') return
    if (depth === 3) {
      isCaptured = local === 'href' || local === 'status'
      if (local !== 'propstat') return
      if (++propstats > maxPropstats) throw protocolFailure('The list holds a name with too many answers.')
      inner = { status: '', properties: {} }
    } else if (depth === 4) isCaptured = local === 'status' && openElements[2] === 'propstat'
    else if (depth === 5 && isIn('response', 'propstat', 'prop')) {
      key = propertiesByName.get(`${uri} ${local}`)
      isCaptured = key !== undefined
      if (key) inner.properties[key] = ''
    } else if (depth === 6 && key === 'type' && isIn('response', 'propstat', 'prop') && local === 'collection')
      inner.properties.type = local
  }

  function end(): void {
    const depth = openElements.length
    if (depth === 3 && openElements[1] === 'response') {
      if (openElements[2] === 'href') hrefs.push(text.trim())
      if (openElements[2] === 'status') ownStatus = text
      if (openElements[2] === 'propstat') endPropstat()
    } else if (depth === 4 && isCaptured) inner.status = text
    else if (depth === 5) {
      if (key && isCaptured && key !== 'type') inner.properties[key] = text.trim()
      key = undefined
    }
    const name = openElements.pop()
    text = ''
    isCaptured = false
    if (depth === 1) isComplete = true
    if (depth !== 2) return
    if (name === 'response') things.push(toResource())
    responseStart = parser.position
  }

  /** Adopts the properties of a propstat with a success status. */
  function endPropstat(): void {
    const own = parseStatus(inner.status)
    if (isSuccess(own)) Object.assign(properties, inner.properties)
    status = isSuccess(own) ? 200 : status || own
  }

  function toResource(): DavResource {
    const own = ownStatus === null ? status : parseStatus(ownStatus)
    const { type, size = '', etag, time = '', id, permissions } = ownStatus === null ? properties : {}
    const modifiedAt = Date.parse(time)
    return {
      // An entry with several hrefs has no unambiguous name.
      href: hrefs.length === 1 ? (hrefs[0] as string) : '',
      status: isSuccess(own) ? 200 : own,
      isFolder: type === 'collection',
      size: /^\d{1,15}$/.test(size) ? Number(size) : null,
      etag: normalizeEtag(etag),
      modifiedAt: isStorableTime(modifiedAt) ? modifiedAt : null,
      isOwnCloud: Boolean(id && permissions),
    }
  }

  const addText = (more: string) => {
    if (isCaptured) text += more
    else if (openElements.length < 2 && /\S/.test(more)) throw notWebdav()
  }
  parser.on('opentag', startElement)
  parser.on('closetag', end)
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('doctype', (doctype) => {
    throw /^\s*html\b/i.test(doctype) ? notWebdav() : protocolFailure('The list holds a DOCTYPE or an entity, which lists do not have.')
  })
  parser.on('error', () => {
    throw openElements.length === 0 && !isComplete ? notWebdav() : protocolFailure('The list is not well-formed XML.')
  })

  return {
    read(piece: string): DavResource[] {
      parser.write(piece)
      if (parser.position - responseStart > maxResponseLength)
        throw protocolFailure(`The list holds a name or a note of more than ${maxResponseLength >> 20} MiB.`)
      const read = things
      things = []
      return read
    },
    end(): void {
      if (!isComplete) throw protocolFailure('The list ends in the middle.')
      parser.close()
    },
  }
}

const parseStatus = (line: string): number => Number(/^\s*HTTP\/[\d.]+\s+(\d{3})/.exec(line)?.[1] ?? 0)
const isSuccess = (status: number): boolean => status >= 200 && status < 300
const protocolFailure = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
const notWebdav = () => protocolFailure('The answer is not a WebDAV list.')
