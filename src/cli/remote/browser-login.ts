/** Sign-in through a browser: the server redirects to a port of this machine with a code (RFC 8252, PKCE: RFC 7636). */
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SignIn } from '../../client/auth.ts'
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure } from '../runtime/exit.ts'
import { type Credential, createCredential } from './credentials.ts'
import { openAnonymousClient, type RemoteTarget } from './remote-client.ts'

/** Prints the URL, opens it if there is a desktop, and waits. Throws Failure AUTH if the sign-in fails, NOT_FOUND if the server has no OIDC. */
export async function signInWithBrowser(cli: Cli, there: RemoteTarget): Promise<Credential> {
  const client = await openAnonymousClient(there, cli.connectOptions)
  try {
    const { status } = await client.health.oidc()
    if (status === 'disabled') throw new Failure('NOT_FOUND', `${there.url}: people sign in by password there`, { fix: 'leave out --web' })
    return createCredential(there.url, await throughBrowser(cli, there, client))
  } finally {
    await client.close()
  }
}

async function throughBrowser(cli: Cli, there: RemoteTarget, { auth }: Client): Promise<SignIn> {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  const waiting = await waitForBrowser(cli.signal)
  try {
    const page = new URL(`${there.url.replace(/\/+$/, '')}/api/auth/oidc/login`)
    page.search = String(new URLSearchParams({ shell_port: String(waiting.port), shell_challenge: challenge }))
    for (const line of ['Open this page in a browser of this machine to sign in:', '', `  ${page}`, '']) cli.warn(line)
    openPage(cli.env, page.href)
    return await auth.exchange(await waiting.code, verifier)
  } finally {
    waiting.end()
  }
}

/** Listens on a free loopback port for the request with the code or the error. */
async function waitForBrowser(signal: AbortSignal): Promise<{ port: number; code: Promise<string>; end(): void }> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  // Prevents an unhandled rejection before the caller awaits `code`.
  promise.catch(() => {})
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    const [code, error] = [searchParams.get('code'), searchParams.get('error')]
    if (code === null && error === null) return response.writeHead(404).end()
    const text = code === null ? `Signing in failed: ${error}. The shell knows more.` : 'Signed in. This page can be closed.'
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${text}\n`)
    if (code !== null) resolve(code)
    else reject(new Failure('AUTH', `the sign-in in the browser ended with ${error}`))
  })
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  await new Promise<void>((started, failed) => server.once('error', failed).listen(0, '127.0.0.1', started))
  const end = () => {
    server.close()
    server.closeIdleConnections()
  }
  return { port: (server.address() as AddressInfo).port, code: promise, end }
}

/** Opens the URL with BROWSER, else with xdg-open on a desktop. Failures are ignored, because the URL is printed. */
function openPage({ BROWSER, DISPLAY, WAYLAND_DISPLAY }: Readonly<Record<string, string | undefined>>, url: string): void {
  const program = BROWSER ?? (process.platform === 'darwin' ? 'open' : (DISPLAY ?? WAYLAND_DISPLAY) ? 'xdg-open' : null)
  if (!program) return
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}
