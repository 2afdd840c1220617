import type { App } from '../app.ts'
import type { AppError, Code } from '../errors.ts'
import { formatBytes, html } from '../http/html.ts'
import { layout } from './layout.ts'

const titles: Readonly<Partial<Record<Code, string>>> = {
  NOT_FOUND: 'There is no such page',
  DOCUMENT_NOT_FOUND: 'There is no such document',
  FORBIDDEN: 'You may not do this',
  RETENTION: 'This document must be kept',
  RATE_LIMITED: 'Too many requests',
  SERVICE_UNAVAILABLE: 'Not available right now',
  PAYLOAD_TOO_LARGE: 'The file is too large',
  VALIDATION_ERROR: 'This request is not valid',
}

const advice: Readonly<Partial<Record<Code, string>>> = {
  NOT_FOUND: 'Check the address.',
  DOCUMENT_NOT_FOUND: 'It was deleted, it belongs to somebody else, or the address is incomplete.',
  INTERNAL_ERROR: 'The server has logged the cause. Try again, or ask an admin.',
  SERVICE_UNAVAILABLE: 'Try again in a minute.',
}

/** Returns the page for an error. */
export function errorPage(
  app: App,
  { code, details, message }: AppError,
  requestId: string,
  username: string | undefined,
  path: string,
): string {
  const wait = details.retry_after_secs
  const issue = (details.issues as { path: string; message: string }[] | undefined)?.[0]
  const reason = issue ? [issue.path, issue.message].filter(Boolean).join(': ') : limitOf(details) || message
  const text = typeof wait === 'number' ? `Try again in ${wait} ${wait === 1 ? 'second' : 'seconds'}.` : (advice[code] ?? reason)
  return layout({
    app,
    title: titles[code] ?? 'Something went wrong',
    username,
    content: html`<div class="card empty">
<h1>${titles[code] ?? 'Something went wrong'}</h1>
<p>${text}</p>
<p>${path === '/upload' ? html`<a class="button" href="/upload">Upload</a>` : html`<a class="button" href="/">Documents</a>`}</p>
<p class="quiet small">Request ${requestId}</p>
</div>`,
  })
}

/** Returns the maximum size of a file or request; empty if the error has none. */
const limitOf = ({ max_bytes }: AppError['details']): string =>
  typeof max_bytes === 'number' ? `At most ${formatBytes(max_bytes)} are accepted.` : ''
