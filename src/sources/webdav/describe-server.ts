/** Identifies a WebDAV server with the package `webdav`. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { AuthType, createClient, getPatcher } from 'webdav'
import type { HttpClient } from '../http/http-client.ts'

const maxNameLength = 100

/** Client of the server that is being asked. */
const current = new AsyncLocalStorage<{ http: HttpClient; signal: AbortSignal }>()

// The package's transport would follow redirects to any address, with the password. `patch` is its public API for another one, global to all clients.
getPatcher().patch('fetch', async (...args) => {
  const [url, init] = args as [string, RequestInit]
  const by = current.getStore()
  if (!by) return fetch(url, init)
  const answer = await by.http.send({ method: init.method as 'OPTIONS', url: new URL(url), signal: by.signal, maxAttempts: 1 })
  answer.discardBody()
  const headers = ['dav', 'server'].map((name): [string, string] => [name, answer.header(name) ?? ''])
  return new Response(null, { status: answer.status, headers })
})

/** Returns the name of the server and its WebDAV classes (RFC 4918, 18). Throws SourceFailure. */
export async function describeServer(root: URL, http: HttpClient, signal: AbortSignal): Promise<string> {
  const client = createClient(root.href, { authType: AuthType.None })
  const { server, compliance } = await current.run({ http, signal }, () => client.getDAVCompliance('/'))
  const classes = compliance.filter((one) => /^\d$/.test(one))
  return [
    server.slice(0, maxNameLength) || 'has no name',
    classes.length > 0 ? `WebDAV ${classes.join(', ')}` : 'does not say that it speaks WebDAV',
  ].join('; ')
}
