import type { App } from '../app.ts'
import { localPath } from '../auth/page-session.ts'
import type { AppError, Code } from '../errors.ts'
import { html, type Markup, markup, nothing } from '../http/html.ts'
import { assets, layout, notice, withParameters } from './layout.ts'

interface SignIn {
  /** Path to open after the login. */
  next?: string | null | undefined
  username?: string
  /** Error of the last attempt, or its code alone after a login at the provider. */
  failure?: AppError
  code?: string | null
}

/** Returns the login form, or a link to the login of the OIDC provider. */
export const signInPage = (app: App, { next, username = '', failure, code }: SignIn): string =>
  layout({
    app,
    title: 'Sign in',
    content: html`<div class="card sign-in">
<img src="${assets.paths.icon}" alt="" width="44" height="44">
<h1>Sign in to dms</h1>
${failure || code ? notice('bad', messageOf(code ?? '', failure)) : nothing}
${app.config.auth.method === 'oidc' ? provider(localPath(next)) : form(localPath(next), username, failure !== undefined)}
</div>`,
  })

const form = (next: string, username: string, isRetry: boolean): Markup => html`<form method="post" action="/sign-in">
<input type="hidden" name="next" value="${next}">
<label for="username">User name or e-mail</label>
<input id="username" name="username" value="${username}" maxlength="320" autocomplete="username" autocapitalize="none" spellcheck="false" required${markup(isRetry ? '' : ' autofocus')}>
<label for="password">Password</label>
<input id="password" name="password" type="password" maxlength="1024" autocomplete="current-password" required${markup(isRetry ? ' autofocus' : '')}>
<button>Sign in</button>
</form>`

const provider = (next: string): Markup =>
  html`<p class="quiet">This server signs you in with your organisation’s account.</p>
<a class="button strong" href="${withParameters('/api/auth/oidc/login', { page: next })}">Continue with single sign-on</a>`

const messages: Readonly<Partial<Record<Code, string>>> = {
  UNAUTHORIZED: 'The user name or the password is wrong.',
  EMAIL_NOT_VERIFIED: 'Your e-mail address is not confirmed yet. Open the link in the mail that you got.',
  VALIDATION_ERROR: 'Enter your user name and your password.',
  SERVICE_UNAVAILABLE: 'The server cannot sign you in right now. Try again in a minute.',
}

/** Returns the message of an error. Never shows a code from the address itself. */
function messageOf(code: string, failure: AppError | undefined): string {
  const wait = failure?.details.retry_after_secs
  if (typeof wait === 'number')
    return `Too many attempts. Try again in ${wait < 100 ? `${wait} seconds` : `${Math.ceil(wait / 60)} minutes`}.`
  if (!failure && code === 'UNAUTHORIZED') return 'The sign-in at the provider is not valid. Try again.'
  return messages[code as Code] ?? failure?.message ?? 'The sign-in failed. Try again, or ask an admin.'
}
