/** HTML as a reader sees it: without markup, scripts and styles; table cells apart. */
import { byteOrderMark, decode, normalizeWhitespace } from './decode.ts'
import { parseMarkup } from './markup.ts'
import { createTextSink } from './text-sink.ts'

const silent = new Set(['script', 'style', 'template', 'noscript', 'svg', 'math', 'head'])
const blocks = new Set(
  'address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html li main nav ol option p pre section select summary table tbody tfoot thead title tr ul'.split(
    ' ',
  ),
)
const cells = new Set(['td', 'th'])
const metaNames: Readonly<Record<string, string>> = {
  author: 'author',
  description: 'subject',
  keywords: 'keywords',
  generator: 'producer',
}

/** Decodes by mark, XML declaration or `<meta charset>`. */
export function decodeHtml(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 4096)).toString('latin1')
  const declared = byteOrderMark(bytes)
    ? null
    : (/<meta[^>]{0,500}charset\s*=\s*["']?([\w.:-]+)/i.exec(head) ?? /^\s*<\?xml[^>]*encoding=["']([\w.:-]+)["']/.exec(head))?.[1]
  return decode(bytes, declared)
}

/** Reads markup of any quality and depth in linear time. */
export function readHtml(html: string): { text: string; metadata: Record<string, unknown> } {
  const sink = createTextSink()
  const metadata: Record<string, unknown> = {}
  let title = ''
  let inTitle = false
  let muted = 0
  let preformatted = 0
  parseMarkup(
    html,
    {
      onopentag(name, attributes) {
        if (name === 'title' && title === '') inTitle = true
        if (name === 'meta') noteMeta(attributes, metadata)
        if (name === 'body') muted = 0
        if (silent.has(name)) muted++
        if (name === 'pre') preformatted++
        if (blocks.has(name)) sink.add('\n')
        if (muted === 0 && (name === 'img' || name === 'area') && attributes.alt) sink.add(` ${attributes.alt} `)
        if (muted === 0 && name === 'input' && attributes.value && attributes.type !== 'hidden') sink.add(` ${attributes.value} `)
      },
      ontext(text) {
        if (inTitle) title += text
        else if (muted === 0) sink.add(preformatted > 0 ? text : text.replace(/\s+/g, ' '))
      },
      onclosetag(name) {
        if (name === 'title') inTitle = false
        if (silent.has(name) && muted > 0) muted--
        if (name === 'pre' && preformatted > 0) preformatted--
        if (cells.has(name)) sink.add('\t')
        else if (blocks.has(name)) sink.add('\n')
      },
    },
    false,
    () => sink.isFull,
  )
  if (title.trim() !== '') metadata.title = normalizeWhitespace(title).replace(/\s+/g, ' ')
  const body = normalizeWhitespace(sink.text().replace(/\n[ \t]+/g, '\n'))
  return { text: [metadata.title, body].filter(Boolean).join('\n'), metadata }
}

function noteMeta({ name, content }: Record<string, string>, metadata: Record<string, unknown>): void {
  const key = metaNames[name?.toLowerCase() ?? '']
  if (key && content?.trim()) metadata[key] ??= normalizeWhitespace(content)
}
