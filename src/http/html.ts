/** HTML of pages: a template tag that escapes, the document element, the palette that all pages share, and display forms of values. */

/** HTML that needs no escaping. */
export interface Markup {
  readonly markup: string
}

type Content = string | number | Markup | readonly Markup[]

export const markup = (markup: string): Markup => ({ markup })

/** Template tag that escapes every value except markup. */
export const html = (parts: TemplateStringsArray, ...values: readonly Content[]): Markup =>
  markup(String.raw({ raw: parts }, ...values.map(textOf)))

export const nothing: Markup = markup('')

const textOf = (value: Content): string => {
  if (typeof value === 'object') return 'markup' in value ? value.markup : value.map((part) => part.markup).join('')
  return escapeHtml(String(value))
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;')

/** Returns an HTML document for the title, the other elements of its head and the content of its body. */
export const htmlDocument = (title: string, head: Markup, content: Markup, bodyClass?: string): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
${head}
</head>
<body${bodyClass === undefined ? nothing : html` class="${bodyClass}"`}>
${content}
</body>
</html>
`.markup

/** Colours of all pages, light and dark. Text has a contrast of at least 4.5, borders of fields of at least 3 (WCAG 2.2, 1.4.3 and 1.4.11). */
export const palette = `
:root{color-scheme:light dark;--back:#f3f4f7;--card:#fff;--text:#1a1d24;--quiet:#5c6370;--line:#d9dce3;--edge:#858c9b;--strong:#1f5fd0;--stronger:#174da9;--on-strong:#fff;--bad:#b3261e;--bad-back:#fdecea;--good:#1a6b42;--good-back:#e5f4ec;--paper:#eef2fb;--mark:#ffe9a3}
@media(prefers-color-scheme:dark){:root{--back:#111318;--card:#1b1e26;--text:#e8eaf0;--quiet:#a0a7b5;--line:#353a47;--edge:#717a8c;--strong:#7aa8ff;--stronger:#9dbfff;--on-strong:#0d1830;--bad:#ffb4ab;--bad-back:#3a1d1b;--good:#8fd8b0;--good-back:#173426;--paper:#252b3a;--mark:#5a4a10}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--text);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
:focus-visible{outline:3px solid var(--strong);outline-offset:2px}
`

/** Returns an icon with the file's extension. */
export function fileIcon(filename: string): Markup {
  const extension = /\.([a-z0-9]{1,5})$/i.exec(filename)?.[1] ?? ''
  return html`<svg class="file" viewBox="0 0 48 57" aria-hidden="true"><path class="paper" d="M6 1h25l16 16v34a5 5 0 0 1-5 5H6a5 5 0 0 1-5-5V6a5 5 0 0 1 5-5z" stroke="currentColor" stroke-width="2"/><path d="M31 1v11a5 5 0 0 0 5 5h11" fill="none" stroke="currentColor" stroke-width="2"/><text x="24" y="42" text-anchor="middle" fill="currentColor">${extension.toUpperCase()}</text></svg>`
}

const typeFamilies: Readonly<Record<string, string>> = { image: 'Image', audio: 'Audio', video: 'Video', text: 'Text', font: 'Font' }
const typeNames: Readonly<Record<string, string>> = {
  'application/pdf': 'PDF',
  'application/rtf': 'Text document',
  'application/msword': 'Word document',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'Word document',
  'application/vnd.oasis.opendocument.text': 'Text document',
  'application/vnd.ms-excel': 'Spreadsheet',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'Spreadsheet',
  'application/vnd.oasis.opendocument.spreadsheet': 'Spreadsheet',
  'application/vnd.ms-powerpoint': 'Presentation',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'Presentation',
  'application/vnd.oasis.opendocument.presentation': 'Presentation',
  'application/epub+zip': 'E-book',
  'application/zip': 'Archive',
  'message/rfc822': 'E-mail',
  'application/vnd.ms-outlook': 'E-mail',
  'application/mbox': 'Mailbox',
  'application/json': 'JSON',
  'application/xml': 'XML',
  'text/html': 'Web page',
}

/** Returns a display name of a media type. */
export function typeName(mime: string): string {
  const [plain = ''] = mime.split(';')
  const [family = '', kind = ''] = plain.split('/')
  if (typeNames[plain]) return typeNames[plain]
  if (plain === 'text/plain') return 'Text'
  return typeFamilies[family] ? `${typeFamilies[family]} (${kind.replace(/^x-|\+xml$/g, '').toUpperCase()})` : 'File'
}

/** Formats a size in decimal units, with at most three digits. */
export function formatBytes(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(Math.floor(Math.log10(Math.max(1, bytes)) / 3), units.length - 1)
  const value = bytes / 1000 ** power
  return `${power > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${bytes === 1 ? 'byte' : units[power]}`
}

/** Returns a date and time in UTC. */
export const formatDate = (at: Date): string =>
  `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(at)} UTC`

/** Returns the day of a timestamp in UTC. */
export const formatDay = (at: string): string =>
  new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(at))

/** Returns an element with a day, which programs can read too. */
export const dayElement = (at: string): Markup => html`<time datetime="${at}">${formatDay(at)}</time>`

/** Tells if the Accept header prefers HTML, as browsers do. Programs that accept anything get JSON. Of equal qualities, the first counts. */
export function prefersHtml(headers: Headers): boolean {
  const ranges = (headers.get('accept') ?? '').split(',').map((range) => ({
    isHtml: /^\s*(?:text\/html|application\/xhtml\+xml)\s*(?:;|$)/i.test(range),
    quality: Number(/;\s*q\s*=\s*([01](?:\.\d*)?)/i.exec(range)?.[1] ?? 1),
  }))
  const [preferred] = ranges.filter(({ quality }) => quality > 0).sort((a, b) => b.quality - a.quality)
  return preferred?.isHtml === true
}
