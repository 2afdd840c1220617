/** Sign-in through a browser: the server redirects to a port of this machine with a code (RFC 8252, PKCE: RFC 7636). */
import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SignIn } from '../../client/auth.ts'
import type { Client } from '../../client/client.ts'
import type { Cli } from '../runtime/context.ts'
import { Failure } from '../runtime/exit.ts'
import { type Credential, createCredential } from './credentials.ts'
import { openAnonymousClient } from './remote-client.ts'
import type { RemoteTarget } from './target.ts'

/** Prints the URL, opens it if there is a desktop, and waits. Throws Failure AUTH if the sign-in fails, NOT_FOUND if the server has no OIDC. */
export async function signInWithBrowser(cli: Cli, target: RemoteTarget): Promise<Credential> {
  const client = await openAnonymousClient(target, cli.connectOptions)
  try {
    const { status } = await client.health.oidc()
    if (status === 'disabled')
      throw new Failure('NOT_FOUND', `${target.url} has no single sign-on (OIDC)`, { fix: 'sign in with a password: omit --web' })
    return createCredential(target.url, await exchangeCode(cli, target, client))
  } finally {
    await client.close()
  }
}

async function exchangeCode(cli: Cli, target: RemoteTarget, { auth }: Client): Promise<SignIn> {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = hash('sha256', verifier, 'base64url')
  const callback = await listenForCallback(cli.signal)
  try {
    const page = new URL(`${target.url.replace(/\/+$/, '')}/api/auth/oidc/login`)
    page.search = String(new URLSearchParams({ shell_port: String(callback.port), shell_challenge: challenge }))
    for (const line of ['To sign in, open this page in a browser on this machine:', '', `  ${page}`, '']) cli.warn(line)
    openPage(cli.env, page.href)
    return await auth.exchange(await callback.code, verifier)
  } finally {
    callback.end()
  }
}

/** Listens on a free loopback port for the request with the code or the error. */
async function listenForCallback(signal: AbortSignal): Promise<{ port: number; code: Promise<string>; end(): void }> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  // Prevents an unhandled rejection before the caller awaits `code`.
  promise.catch(() => {})
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    const [code, error] = [searchParams.get('code'), searchParams.get('error')]
    if (code === null && error === null) return response.writeHead(404).end()
    const text = code === null ? `Sign-in failed: ${error}. Details are in the shell.` : 'Signed in. This page can be closed.'
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' }).end(`${text}\n`)
    if (code !== null) resolve(code)
    else reject(new Failure('AUTH', `the sign-in in the browser failed: ${error}`))
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
