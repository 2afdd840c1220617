/** The pages that a browser sees at the address of a shared link. No script, nothing from elsewhere. */
import { createHash } from 'node:crypto'
import type { AppError, Code } from '../errors.ts'
import { style } from './page-style.ts'

export interface LinkPage {
  filename: string
  size: number
  mime_type: string
  requires_password: boolean
  expires_at: Date | null
  /** whether its type is shown inside a browser */
  isViewable: boolean
  /** what leads from the page's own address to where its forms go: '' or the token and a slash */
  base: string
  /** why the last try came to nothing */
  failure?: AppError | undefined
}

/** What the pages need their browser to allow: this one style sheet, and forms that come back here. */
export const pagePolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; form-action 'self'; frame-ancestors 'none'`

/** The page of a link that works. */
export function linkPage({ filename, size, mime_type, requires_password, expires_at, isViewable, base, failure }: LinkPage): string {
  const field = html`<label for="password">Password</label>
<input id="password" name="password" type="password" maxlength="1024" autocomplete="off" required autofocus${mark(failure ? ' aria-invalid="true" aria-describedby="problem"' : '')}>`
  const view = html`<button formaction="${base}view" formtarget="_blank">View</button>`
  return frame(
    filename,
    html`${picture(filename)}
<h1>${filename}</h1>
<p class="facts">${typeName(mime_type)} · ${readable(size)}</p>
${failure ? html`<p class="bad" id="problem" role="alert">${problem(failure)}</p>` : html``}
<form method="post" action="${base}download" rel="noopener">
${requires_password ? field : html``}
<div class="ways"><button class="first">Download</button>${isViewable ? view : html``}</div>
</form>
<footer>${expires_at ? html`Available until <time datetime="${expires_at.toISOString()}">${moment(expires_at)}</time>` : 'Shared with you by a link'}</footer>`,
  )
}

/** The page instead of a link that does not work, or not now. */
export function refusalPage({ code, details }: AppError): string {
  const [title, say] = refusals[code] ?? ['Something went wrong', 'Try again in a moment.']
  const wait = details.retry_after_secs
  const hint = typeof wait === 'number' ? `Try again in ${wait === 1 ? 'a second' : `${wait} seconds`}.` : say
  return frame(title, html`${noPicture()}<h1>${title}</h1><p class="say">${hint}</p>`)
}

const askAgain = 'Ask whoever sent it for a new one.'

const nowhere = ['This link leads nowhere', 'Look whether its address is complete, or ask whoever sent it for a new one.'] as const
const tooMany = ['Too many requests', 'Try again in a minute.'] as const

const refusals: Readonly<Partial<Record<Code, readonly [title: string, say: string]>>> = {
  NOT_FOUND: nowhere,
  SHARED_LINK_NOT_FOUND: nowhere,
  SHARED_LINK_REVOKED: ['This link was withdrawn', 'Whoever shared the document does not share it any more.'],
  SHARED_LINK_EXPIRED: ['This link has expired', askAgain],
  SHARED_LINK_MAX_VIEWS: ['This link has been used up', `It could be opened a certain number of times. ${askAgain}`],
  SHARED_LINK_RATE_LIMITED: tooMany,
  RATE_LIMITED: tooMany,
  SERVICE_UNAVAILABLE: ['Not available right now', 'Try again in a minute.'],
}

function problem({ code, details, message }: AppError): string {
  if (code === 'SHARED_LINK_INVALID_PASSWORD') return 'That is not the right password.'
  if (code === 'SHARED_LINK_PASSWORD_REQUIRED') return 'Enter the password first.'
  return code === 'SHARED_LINK_RATE_LIMITED' ? `Too many tries. Wait ${details.retry_after_secs} seconds, then try again.` : message
}

/** A sheet of paper with the file's extension on it. */
function picture(filename: string): Markup {
  const extension = /\.([a-z0-9]{1,5})$/i.exec(filename)?.[1] ?? ''
  return html`<svg viewBox="0 0 48 57" aria-hidden="true"><path class="paper" d="M6 1h25l16 16v34a5 5 0 0 1-5 5H6a5 5 0 0 1-5-5V6a5 5 0 0 1 5-5z" stroke="currentColor" stroke-width="2"/><path d="M31 1v11a5 5 0 0 0 5 5h11" fill="none" stroke="currentColor" stroke-width="2"/><text x="24" y="42" text-anchor="middle" fill="currentColor">${extension.toUpperCase()}</text></svg>`
}

const noPicture = (): Markup =>
  mark(
    '<svg class="no" viewBox="0 0 48 48" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round"><circle cx="24" cy="24" r="22"/><path d="m17 17 14 14m0-14-14 14"/></svg>',
  )

const frame = (title: string, content: Markup): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${mark(style)}</style>
</head>
<body>
<main>
${content}
</main>
</body>
</html>
`.markup

const families: Readonly<Record<string, string>> = { image: 'Image', audio: 'Audio', video: 'Video', text: 'Text', font: 'Font' }
const names: Readonly<Record<string, string>> = {
  'application/pdf': 'PDF',
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
  'text/html': 'Web page',
}

/** What people call files of that type. */
function typeName(mime: string): string {
  const [plain = ''] = mime.split(';')
  const [family = '', kind = ''] = plain.split('/')
  if (names[plain]) return names[plain]
  if (plain === 'text/plain') return 'Text'
  return families[family] ? `${families[family]} (${kind.replace(/^x-|\+xml$/g, '').toUpperCase()})` : 'File'
}

function readable(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(Math.floor(Math.log10(Math.max(1, bytes)) / 3), units.length - 1)
  const value = bytes / 1000 ** power
  return `${power > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${bytes === 1 ? 'byte' : units[power]}`
}

const moment = (at: Date): string =>
  `${new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(at)} UTC`

/** Text that is HTML already. */
interface Markup {
  readonly markup: string
}

const mark = (markup: string): Markup => ({ markup })

/** HTML in which every value is escaped that is not markup itself. */
const html = (parts: TemplateStringsArray, ...values: readonly (string | Markup)[]): Markup =>
  mark(String.raw({ raw: parts }, ...values.map((value) => (typeof value === 'string' ? escaped(value) : value.markup))))

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;')
