/** Reader of HTML: the visible text, with tabs between table cells. */
import { byteOrderMark, createTextSink, decode, normalizeWhitespace } from './decode.ts'
import { parseMarkup } from './markup.ts'

/** Elements without visible text, and phonetic guides, which divide the words that they repeat. */
const hiddenTags = new Set(['script', 'style', 'template', 'noscript', 'svg', 'math', 'rt', 'rp'])
/** Elements of a head. The tags </head> and <body> are optional: text, or any other element, ends the head. */
const headTags = new Set(['head', 'title', 'meta', 'link', 'style', 'script', 'base', 'noscript', 'template'])
const blockTags = new Set(
  'address article aside blockquote body br button caption center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html li main nav ol option p pre section select summary table tbody textarea tfoot thead title tr ul'.split(
    ' ',
  ),
)
const metaNames = new Map([
  ['author', 'author'],
  ['description', 'subject'],
  ['keywords', 'keywords'],
  ['generator', 'producer'],
])

/** Decodes by byte order mark, XML declaration or `<meta charset>`. */
export function decodeHtml(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 4096)).toString('latin1')
  const declared = byteOrderMark(bytes)
    ? null
    : (/<meta[^>]{0,500}charset\s*=\s*["']?([\w.:-]+)/i.exec(head) ?? /^\s*<\?xml[^>]*encoding=["']([\w.:-]+)["']/.exec(head))?.[1]
  return decode(bytes, declared)
}

/** Returns whether a document declares itself as XHTML, by an XML declaration or by the namespace of its root. */
const isXhtml = (html: string): boolean => /^\s*<\?xml\s|<html[^>]{1,500}http:\/\/www\.w3\.org\/1999\/xhtml/i.test(html.slice(0, 4096))

/** Maximum nesting of documents in frames. */
const maxFrames = 3

/** Reads HTML of any quality and depth in linear time. */
export function readHtml(html: string, depth = 0): { text: string; metadata: Record<string, unknown> } {
  const sink = createTextSink()
  const metadata: Record<string, unknown> = {}
  let title = ''
  let inTitle = false
  let inHead = false
  let hiddenDepth = 0
  let preDepth = 0
  parseMarkup(
    html,
    {
      onopentag(name, attributes) {
        if (name === 'title' && title === '') inTitle = true
        if (name === 'meta') readMeta(attributes, metadata)
        if (name === 'body') hiddenDepth = 0
        if (name === 'head') inHead = true
        else if (!headTags.has(name)) inHead = false
        if (hiddenTags.has(name)) hiddenDepth++
        if (name === 'pre') preDepth++
        if (blockTags.has(name)) sink.add('\n')
        if (hiddenDepth === 0 && (name === 'img' || name === 'area') && attributes.alt) sink.add(` ${attributes.alt} `)
        if (hiddenDepth === 0 && name === 'iframe' && attributes.srcdoc && depth < maxFrames)
          sink.add(`\n${readHtml(attributes.srcdoc, depth + 1).text}\n`)
        if (hiddenDepth === 0 && name === 'input' && attributes.value && attributes.type !== 'hidden') sink.add(` ${attributes.value} `)
      },
      ontext(text) {
        if (inTitle) title += text
        else if (hiddenDepth === 0 && !(inHead && text.trim() === '')) {
          inHead = false
          sink.add(preDepth > 0 ? text : text.replace(/\s+/g, ' '))
        }
      },
      onclosetag(name) {
        if (name === 'title') inTitle = false
        if (name === 'head') inHead = false
        if (hiddenTags.has(name) && hiddenDepth > 0) hiddenDepth--
        if (name === 'pre' && preDepth > 0) preDepth--
        if (name === 'td' || name === 'th') sink.add('\t')
        else if (blockTags.has(name)) sink.add('\n')
      },
    },
    { recognizeSelfClosing: isXhtml(html) },
    () => sink.isFull,
  )
  if (title.trim() !== '') metadata.title = normalizeWhitespace(title).replace(/\s+/g, ' ')
  const body = normalizeWhitespace(sink.text().replace(/\n[ \t]+/g, '\n'))
  return { text: [metadata.title, body].filter(Boolean).join('\n'), metadata }
}

function readMeta({ name, content }: Record<string, string>, metadata: Record<string, unknown>): void {
  const key = metaNames.get(name?.toLowerCase() ?? '')
  if (key && content?.trim()) metadata[key] ??= normalizeWhitespace(content)
}
