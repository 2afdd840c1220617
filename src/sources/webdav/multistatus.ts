/** Reads the answer to a PROPFIND while it comes: it may hold 100,000 names in one body, and none of it is kept longer than it takes to tell of it. */
import { SaxesParser, type SaxesTagNS } from 'saxes'
import { SourceFailure } from '../../ports/source-type.ts'

/** One thing of the answer. */
export interface Listed {
  /** as it was sent */
  readonly href: string
  /** of the thing itself: 200 where its properties came, else what the server says instead of them */
  readonly status: number
  readonly isFolder: boolean
  readonly size: number | null
  readonly etag: string | null
  /** milliseconds since 1970 */
  readonly modifiedAt: number | null
  /** whether it has the properties that Nextcloud and ownCloud alone give */
  readonly isOwnCloud: boolean
}

/** Characters of one <response>; names of megabytes end here. */
const maxResponse = 1 << 20
/** Bytes of a whole answer. */
const maxAnswer = 512 << 20
const maxPropstats = 16
const maxDepth = 64

/** Reads an answer to its end, a few things at a time. Throws SourceFailure SOURCE_PROTOCOL for anything but a whole multistatus. */
export async function* readMultistatus(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<Listed[]> {
  const reader = openReader()
  for await (const text of decoded(body, contentType)) {
    const things = reader.read(text)
    if (things.length > 0) yield things
  }
  reader.end()
}

/** The ETag without its mark of weakness: Apache calls a tag weak in the first second of a file's life, and strong from then on. */
export const plainTag = (etag: string | undefined): string | null => etag?.replace(/^W\//, '').replace(/^""$/, '').slice(0, 512) || null

/** The text of a body, in the encoding that its first bytes, its type or its XML declaration name; without blanks at its start. */
async function* decoded(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<string> {
  let decoder: TextDecoder | null = null
  let total = 0
  let hasBegun = false
  try {
    for await (const bytes of body) {
      total += bytes.length
      if (total > maxAnswer) throw wrong(`The list is larger than ${maxAnswer >> 20} MiB.`)
      decoder ??= new TextDecoder(encodingOf(bytes, contentType), { fatal: true })
      const text = decoder.decode(bytes, { stream: true })
      // Scripts send empty lines before all else, which XML does not allow before its declaration.
      const own: string = hasBegun ? text : text.trimStart()
      hasBegun ||= own !== ''
      if (own !== '') yield own
    }
    yield decoder?.decode() ?? ''
  } catch (error) {
    if (error instanceof RangeError || (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      throw wrong('The list is in an encoding that cannot be read.')
    throw error
  }
}

function encodingOf(start: Uint8Array, contentType: string): string {
  const [first, second] = start
  if ((first === 0xff && second === 0xfe) || (first === 0x3c && second === 0)) return 'utf-16le'
  if ((first === 0xfe && second === 0xff) || (first === 0 && second === 0x3c)) return 'utf-16be'
  const declared = /^(?:\xef\xbb\xbf)?<\?xml[^>]{0,100}\bencoding\s*=\s*["']([\w-]+)["']/.exec(
    Buffer.from(start.subarray(0, 200)).toString('latin1'),
  )
  return /;\s*charset\s*=\s*"?([\w-]+)/i.exec(contentType)?.[1] ?? declared?.[1] ?? 'utf-8'
}

/** The properties that are read, by the names under which they are kept here. */
type Properties = Partial<Record<keyof typeof names, string>>
const names = {
  type: 'DAV: resourcetype',
  size: 'DAV: getcontentlength',
  etag: 'DAV: getetag',
  time: 'DAV: getlastmodified',
  id: 'http://owncloud.org/ns id',
  permissions: 'http://owncloud.org/ns permissions',
}
const keys = new Map(Object.entries(names).map(([key, name]) => [name, key as keyof Properties]))

/**
 * Takes the text in pieces, and gives the things that have ended in each. What stands where: multistatus 1, response 2, href, status and propstat 3,
 * prop and its status 4, properties 5, what is in them 6.
 */
function openReader() {
  const parser = new SaxesParser({ xmlns: true, position: false })
  const open: string[] = []
  let isComplete = false
  /** position at which what is being read began */
  let began = 0
  let things: Listed[] = []
  let text = ''
  let isKept = false
  let key: keyof Properties | undefined
  let hrefs: string[] = []
  let ownStatus: string | null = null
  let status = 0
  let propstats = 0
  let inner = { status: '', properties: {} as Properties }
  let properties: Properties = {}

  const isIn = (...path: string[]) => path.every((name, index) => open[index + 1] === name)

  function begin({ local, uri }: SaxesTagNS): void {
    const depth = open.push(local)
    text = ''
    isKept = false
    if (depth === 1 && local !== 'multistatus') throw notDav()
    if (depth > maxDepth) throw wrong('The list is nested too deeply.')
    if (depth === 2) [hrefs, ownStatus, status, propstats, properties] = [[], null, 0, 0, {}]
    if (depth < 3 || open[1] !== 'response') return
    if (depth === 3) {
      isKept = local === 'href' || local === 'status'
      if (local !== 'propstat') return
      if (++propstats > maxPropstats) throw wrong('The list holds a name with too many answers.')
      inner = { status: '', properties: {} }
    } else if (depth === 4) isKept = local === 'status' && open[2] === 'propstat'
    else if (depth === 5 && isIn('response', 'propstat', 'prop')) {
      key = keys.get(`${uri} ${local}`)
      isKept = key !== undefined
      if (key) inner.properties[key] = ''
    } else if (depth === 6 && key === 'type' && isIn('response', 'propstat', 'prop') && local === 'collection')
      inner.properties.type = local
  }

  function end(): void {
    const depth = open.length
    if (depth === 3 && open[1] === 'response') {
      if (open[2] === 'href') hrefs.push(text.trim())
      if (open[2] === 'status') ownStatus = text
      if (open[2] === 'propstat') settle()
    } else if (depth === 4 && isKept) inner.status = text
    else if (depth === 5) {
      if (key && isKept && key !== 'type') inner.properties[key] = text.trim()
      key = undefined
    }
    const name = open.pop()
    text = ''
    isKept = false
    if (depth === 1) isComplete = true
    if (depth !== 2) return
    if (name === 'response') things.push(listed())
    began = parser.position
  }

  /** One group of properties is over: they are the thing's where the server could tell them. */
  function settle(): void {
    const own = statusOf(inner.status)
    if (isGood(own)) Object.assign(properties, inner.properties)
    status = isGood(own) ? 200 : status || own
  }

  function listed(): Listed {
    const own = ownStatus === null ? status : statusOf(ownStatus)
    const { type, size = '', etag, time = '', id, permissions } = ownStatus === null ? properties : {}
    const modifiedAt = Date.parse(time)
    return {
      // One thing has one name; what has several is not told of by any.
      href: hrefs.length === 1 ? (hrefs[0] as string) : '',
      status: isGood(own) ? 200 : own,
      isFolder: type === 'collection',
      size: /^\d{1,15}$/.test(size) ? Number(size) : null,
      etag: plainTag(etag),
      modifiedAt: isDate(modifiedAt) ? modifiedAt : null,
      isOwnCloud: Boolean(id && permissions),
    }
  }

  const hear = (more: string) => {
    if (isKept) text += more
    else if (open.length < 2 && /\S/.test(more)) throw notDav()
  }
  parser.on('opentag', begin)
  parser.on('closetag', end)
  parser.on('text', hear)
  parser.on('cdata', hear)
  parser.on('doctype', (doctype) => {
    throw /^\s*html\b/i.test(doctype) ? notDav() : wrong('The list holds a DOCTYPE or an entity, which lists do not have.')
  })
  parser.on('error', () => {
    throw open.length === 0 && !isComplete ? notDav() : wrong('The list is not well-formed XML.')
  })

  return {
    read(piece: string): Listed[] {
      parser.write(piece)
      if (parser.position - began > maxResponse) throw wrong(`The list holds a name or a note of more than ${maxResponse >> 20} MiB.`)
      const read = things
      things = []
      return read
    },
    end(): void {
      if (!isComplete) throw wrong('The list ends in the middle.')
      parser.close()
    },
  }
}

const statusOf = (line: string): number => Number(/^\s*HTTP\/[\d.]+\s+(\d{3})/.exec(line)?.[1] ?? 0)
const isGood = (status: number): boolean => status >= 200 && status < 300
/** The years that a database can keep. */
export const isDate = (time: number) => time > -62_135_596_800_000 && time < 253_402_300_800_000
const wrong = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
const notDav = () => wrong('The answer is not a WebDAV list.')
