/** HTML pages of shared links, without scripts and external resources. */
import { hash } from 'node:crypto'
import type { AppError, Code } from '../errors.ts'
import { fileIcon, formatBytes, formatDate, html, htmlDocument, type Markup, markup, palette, typeName } from '../http/html.ts'

interface LinkPage {
  filename: string
  size: number
  mime_type: string
  requires_password: boolean
  expires_at: Date | null
  /** true if browsers can display its type */
  isViewable: boolean
  /** relative path from the page to its form actions: '' or the token and a slash */
  base: string
  /** error of the last attempt */
  failure?: AppError | undefined
}

const style = `${palette}html{height:100%}
body{min-height:100%;display:flex;align-items:center;justify-content:center;padding:1.25rem}
main{width:100%;max-width:27rem;background:var(--card);border:1px solid var(--line);border-radius:1rem;padding:2.25rem 2rem 1.75rem;box-shadow:0 1px 2px #0000000d,0 12px 32px #00000014;text-align:center}
svg{display:block;width:4rem;height:4.75rem;margin:0 auto 1.1rem;color:var(--strong)}
svg.no{width:3.5rem;height:3.5rem;color:var(--quiet)}
svg .paper{fill:var(--paper)}svg text{font:700 9px system-ui,sans-serif;letter-spacing:.3px}
h1{margin:0;font-size:1.2rem;line-height:1.35;font-weight:650;overflow-wrap:anywhere;text-wrap:balance}
.facts{margin:.35rem 0 0;color:var(--quiet);font-size:.94rem}
.say{margin:.6rem 0 0;color:var(--quiet)}
form{margin:1.6rem 0 0;text-align:left}
label{display:block;margin:0 0 .35rem;font-weight:600;font-size:.94rem}
input{width:100%;min-height:2.9rem;margin:0 0 1rem;padding:.5rem .8rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--edge);border-radius:.6rem}
input[aria-invalid]{border-color:var(--bad)}
.bad{margin:1.4rem 0 0;padding:.65rem .85rem;border-radius:.6rem;background:var(--bad-back);color:var(--bad);font-size:.94rem;text-align:left}
.ways{display:flex;flex-wrap:wrap;gap:.65rem}
button{flex:1 1 9rem;min-height:2.9rem;padding:.5rem 1rem;font:inherit;font-weight:600;border-radius:.6rem;border:1px solid var(--strong);background:transparent;color:var(--strong);cursor:pointer}
button.first{background:var(--strong);color:var(--on-strong)}
button.first:hover{background:var(--stronger);border-color:var(--stronger)}
button:not(.first):hover{background:var(--paper)}
footer{text-wrap:balance;margin:1.6rem 0 0;padding:1.1rem 0 0;border-top:1px solid var(--line);color:var(--quiet);font-size:.85rem}
@media(max-width:26rem){body{padding:.75rem}main{padding:1.75rem 1.25rem 1.25rem}}
`

/** Content security policy of the pages: one inline style sheet and forms to this server. */
export const pagePolicy = `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; form-action 'self'; frame-ancestors 'none'`

/** Returns the page of a usable link. */
export function linkPage({ filename, size, mime_type, requires_password, expires_at, isViewable, base, failure }: LinkPage): string {
  const field = html`<label for="password">Password</label>
<input id="password" name="password" type="password" maxlength="1024" autocomplete="off" required autofocus${markup(failure ? ' aria-invalid="true" aria-describedby="problem"' : '')}>`
  const view = html`<button formaction="${base}view" formtarget="_blank">View</button>`
  return htmlPage(
    filename,
    html`${fileIcon(filename)}
<h1>${filename}</h1>
<p class="facts">${typeName(mime_type)} · ${formatBytes(size)}</p>
${failure ? html`<p class="bad" id="problem" role="alert">${failureText(failure)}</p>` : html``}
<form method="post" action="${base}download" rel="noopener">
${requires_password ? field : html``}
<div class="ways"><button class="first">Download</button>${isViewable ? view : html``}</div>
</form>
<footer>${expires_at ? html`Available until <time datetime="${expires_at.toISOString()}">${formatDate(expires_at)}</time>` : 'Shared with you by a link'}</footer>`,
  )
}

/** Returns the page for an error. */
export function refusalPage({ code, details }: AppError): string {
  const [title, say] = messages[code] ?? ['Something went wrong', 'Try again in a moment.']
  const wait = details.retry_after_secs
  const hint = typeof wait === 'number' ? `Try again in ${wait === 1 ? 'a second' : `${wait} seconds`}.` : say
  return htmlPage(title, html`${errorIcon()}<h1>${title}</h1><p class="say">${hint}</p>`)
}

const askAgain = 'Ask whoever sent it for a new one.'

const notFound = ['This link leads nowhere', 'Look whether its address is complete, or ask whoever sent it for a new one.'] as const
const tooMany = ['Too many requests', 'Try again in a minute.'] as const

const messages: Readonly<Partial<Record<Code, readonly [title: string, say: string]>>> = {
  NOT_FOUND: notFound,
  SHARED_LINK_NOT_FOUND: notFound,
  SHARED_LINK_REVOKED: ['This link was withdrawn', 'Whoever shared the document does not share it any more.'],
  SHARED_LINK_EXPIRED: ['This link has expired', askAgain],
  SHARED_LINK_MAX_VIEWS: ['This link has been used up', `It could be opened a certain number of times. ${askAgain}`],
  SHARED_LINK_RATE_LIMITED: tooMany,
  RATE_LIMITED: tooMany,
  SERVICE_UNAVAILABLE: ['Not available right now', 'Try again in a minute.'],
}

function failureText({ code, details, message }: AppError): string {
  if (code === 'SHARED_LINK_INVALID_PASSWORD') return 'That is not the right password.'
  if (code === 'SHARED_LINK_PASSWORD_REQUIRED') return 'Enter the password first.'
  return code === 'SHARED_LINK_RATE_LIMITED' ? `Too many tries. Wait ${details.retry_after_secs} seconds, then try again.` : message
}

const errorIcon = (): Markup =>
  markup(
    '<svg class="no" viewBox="0 0 48 48" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round"><circle cx="24" cy="24" r="22"/><path d="m17 17 14 14m0-14-14 14"/></svg>',
  )

const htmlPage = (title: string, content: Markup): string =>
  htmlDocument(
    title,
    html`<meta name="robots" content="noindex">
<style>${markup(style)}</style>`,
    html`<main>
${content}
</main>`,
  )
