/**
 * Reads the answer to a PROPFIND. An answer may hold 100,000 names in one body, and the package `webdav` parses whole texts only: so the body is
 * cut into its <response> elements as it comes, and the package parses those, some at a time.
 */
import { parseXML } from 'webdav'
import { SourceFailure } from '../../ports/sources.ts'

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
/** Characters that are given to the package at once. With 128 Ki the garbage of 100,000 names takes 60 MB more, and a quarter more time. */
const batchSize = 16 << 10
const owncloud = '{http://owncloud.org/ns}'

const parsing = {
  attributeNamePrefix: '@',
  attributeParsers: [],
  // Otherwise an ETag of 1e5 becomes the number 100000.
  tagParsers: [() => undefined],
  clarkNotationProps: true,
  // Otherwise &#233; stays as it is.
  entityDecoder: { limit: {} },
}

/** Reads an answer to its end, a few things at a time. Throws SourceFailure SOURCE_PROTOCOL for anything but a whole multistatus. */
export async function* readMultistatus(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<Listed[]> {
  const cutter = cutResponses()
  for await (const text of decoded(body, contentType)) {
    cutter.add(text)
    if (cutter.size() >= batchSize) yield await parsed(cutter.take())
  }
  if (!cutter.isComplete()) throw wrong('The list ends in the middle.')
  yield await parsed(cutter.take())
}

/** The ETag without its mark of weakness: Apache calls a tag weak in the first second of a file's life, and strong from then on. */
export const plainTag = (etag: string | undefined): string | null => etag?.replace(/^W\//, '').replace(/^""$/, '').slice(0, 512) || null

/** The text of a body, in the encoding that its first bytes, its type or its XML declaration name. */
async function* decoded(body: AsyncIterable<Uint8Array>, contentType: string): AsyncGenerator<string> {
  let decoder: TextDecoder | null = null
  let total = 0
  try {
    for await (const bytes of body) {
      total += bytes.length
      if (total > maxAnswer) throw wrong(`The list is larger than ${maxAnswer >> 20} MiB.`)
      decoder ??= new TextDecoder(encodingOf(bytes, contentType), { fatal: true })
      yield decoder.decode(bytes, { stream: true })
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

interface Cut {
  /** the whole start tag of the root, with its namespaces, and its name */
  readonly root: string
  readonly rootName: string
  /** <response> elements; one with several <propstat> is there once for each, since the package reads the first alone */
  readonly responses: readonly string[]
  /** how many of them in turn are the same thing */
  readonly times: readonly number[]
}

/** Cuts text into responses. What is not well nested throws: the parser of the package takes anything. */
function cutResponses() {
  const tag = /<(\/?)([^\s<>"'/=!?][^\s<>"'/=]*)((?:[^"'<>]|"[^"<]*"|'[^'<]*')*)>/y
  let text = ''
  let at = 0
  let root = ''
  let isComplete = false
  const open: string[] = []
  let start = 0
  let propstats: { start: number; end: number }[] = []
  let cut: { responses: string[]; times: number[]; size: number } = { responses: [], times: [], size: 0 }

  /** Steps over one comment, section, instruction or tag; false where its end has not come yet. */
  function step(): boolean {
    const next = text.indexOf('<', at)
    const between = text.slice(at, next === -1 ? text.length : next)
    if (open.length < 2 && /[^\s\ufeff]/.test(between)) throw notDav()
    at = next === -1 ? text.length : next
    if (next === -1 || isComplete) return false
    for (const [begins, ends] of [
      ['<!--', '-->'],
      ['<![CDATA[', ']]>'],
      ['<?', '?>'],
    ] as const) {
      if (!text.startsWith(begins, at)) continue
      const end = text.indexOf(ends, at + begins.length)
      if (end !== -1) at = end + ends.length
      return end !== -1
    }
    if (text.startsWith('<!', at)) {
      if (text.length - at < 9) return false
      throw root === '' && /^<!doctype\s+html/i.test(text.slice(at, at + 15))
        ? notDav()
        : wrong('The list holds a DOCTYPE or an entity, which lists do not have.')
    }
    tag.lastIndex = at
    const found = tag.exec(text)
    if (!found) {
      if (/^<\/?[^\s<>"'/=!?][^<]*</.test(text.slice(at, at + 1000))) throw wrong('The list is not well-formed XML.')
      return false
    }
    const [whole, slash, name = '', rest = ''] = found
    if (slash === '/') close(name, at + whole.length)
    else begin(name, whole, rest.endsWith('/'))
    at += whole.length
    return true
  }

  function begin(name: string, whole: string, isEmpty: boolean): void {
    if (open.length === 0) {
      if (localName(name) !== 'multistatus') throw notDav()
      root = isEmpty ? `${whole.slice(0, -2)}>` : whole
    }
    if (open.length === 1) [start, propstats] = [at, []]
    if (open.length === 2 && localName(name) === 'propstat') propstats.push({ start: at, end: at })
    open.push(name)
    if (open.length > 64) throw wrong('The list is nested too deeply.')
    if (isEmpty) close(name, at + whole.length)
  }

  function close(name: string, end: number): void {
    if (open.pop() !== name) throw wrong('The list is not well-formed XML.')
    if (open.length === 0) isComplete = true
    const propstat = propstats.at(-1)
    if (open.length === 2 && localName(name) === 'propstat' && propstat) propstat.end = end
    if (open.length === 1 && localName(name) === 'response') put(end)
  }

  function put(end: number): void {
    if (propstats.length > maxPropstats) throw wrong('The list holds a name with too many answers.')
    const without = (kept: number) => {
      let [copy, from] = ['', start]
      for (const [index, propstat] of propstats.entries()) {
        copy += text.slice(from, index === kept ? propstat.end : propstat.start)
        from = propstat.end
      }
      return copy + text.slice(from, end)
    }
    const copies = propstats.length > 1 ? propstats.map((_, index) => without(index)) : [text.slice(start, end)]
    cut.responses.push(...copies)
    cut.times.push(copies.length)
    cut.size += end - start
  }

  return {
    add(more: string): void {
      text += more
      while (step());
      const kept = open.length > 1 ? Math.min(start, at) : at
      text = text.slice(kept)
      at -= kept
      start -= kept
      for (const propstat of propstats) {
        propstat.start -= kept
        propstat.end -= kept
      }
      if (text.length > maxResponse) throw wrong(`The list holds a name or a note of more than ${maxResponse >> 20} MiB.`)
    },
    size: () => cut.size,
    isComplete: () => isComplete,
    take(): Cut {
      const taken = { root, rootName: /^<([^\s/>]+)/.exec(root)?.[1] ?? '', ...cut }
      cut = { responses: [], times: [], size: 0 }
      return taken
    },
  }
}

interface Response {
  readonly href?: unknown
  readonly status?: unknown
  readonly propstat?: { readonly prop?: unknown; readonly status?: unknown }
}

async function parsed({ root, rootName, responses, times }: Cut): Promise<Listed[]> {
  if (responses.length === 0) return []
  const { multistatus } = await parseXML(`${root}${responses.join('')}</${rootName}>`, parsing)
  const all = multistatus.response as readonly Response[]
  let from = 0
  return times.map((count) => {
    from += count
    return listed(all.slice(from - count, from))
  })
}

/** One thing from its answers: each has one group of properties with one status. */
function listed(answers: readonly Response[]): Listed {
  const props: Record<string, unknown> = {}
  let status = 0
  for (const answer of answers) {
    const own = statusOf(answer.status ?? answer.propstat?.status)
    const isGood = own >= 200 && own < 300
    if (isGood && answer.status === undefined) Object.assign(props, answer.propstat?.prop)
    status = isGood ? 200 : status || own
  }
  const textOf = (name: string) => plain(props[name])
  const size = textOf('{DAV:}getcontentlength') ?? ''
  const type = props['{DAV:}resourcetype']
  const modifiedAt = Date.parse(textOf('{DAV:}getlastmodified') ?? '')
  return {
    href: plain(answers[0]?.href) ?? '',
    status,
    isFolder: typeof type === 'object' && type !== null && Object.keys(type).some((name) => localName(name) === 'collection'),
    size: /^\d{1,15}$/.test(size) ? Number(size) : null,
    etag: plainTag(textOf('{DAV:}getetag')),
    modifiedAt: isDate(modifiedAt) ? modifiedAt : null,
    isOwnCloud: textOf(`${owncloud}id`) !== undefined && textOf(`${owncloud}permissions`) !== undefined,
  }
}

/** The text of an element; undefined where there is none. With attributes the package makes an object of it. */
function plain(value: unknown): string | undefined {
  const text = typeof value === 'object' && value !== null && 'text' in value ? value.text : value
  return typeof text === 'string' && text !== '' ? text : undefined
}

const statusOf = (line: unknown): number => Number(/^HTTP\/[\d.]+\s+(\d{3})/.exec(plain(line) ?? '')?.[1] ?? 0)
/** The years that a database can keep. */
export const isDate = (time: number) => time > -62_135_596_800_000 && time < 253_402_300_800_000
const localName = (name: string) => name.slice(name.indexOf(':') + 1)
const wrong = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
const notDav = () => wrong('The answer is not a WebDAV list.')
