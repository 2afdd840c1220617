/** What a WebDAV server says of itself. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { AuthType, createClient, getPatcher } from 'webdav'
import type { Requests } from '../http/requests.ts'

/** Characters of a server's own name that are shown. */
const maxName = 100

/** The requests of the server that is being asked. */
const asked = new AsyncLocalStorage<{ requests: Requests; signal: AbortSignal }>()

// The package's own transport follows redirects with the password, to any address. It has one for all its clients, so each brings its requests along.
getPatcher().patch('fetch', async (...args) => {
  const [url, init] = args as [string, RequestInit]
  const by = asked.getStore()
  if (!by) return fetch(url, init)
  const answer = await by.requests.send({ method: init.method as 'OPTIONS', url: new URL(url), signal: by.signal, tries: 1 })
  answer.drop()
  const headers = ['dav', 'server'].map((name): [string, string] => [name, answer.header(name) ?? ''])
  return new Response(null, { status: answer.status, headers })
})

/** The server's name and the classes of WebDAV (RFC 4918, 18) that it keeps to, in a few words. Throws SourceFailure. */
export async function describeServer(root: URL, requests: Requests, signal: AbortSignal): Promise<string> {
  const client = createClient(root.href, { authType: AuthType.None })
  const { server, compliance } = await asked.run({ requests, signal }, () => client.getDAVCompliance('/'))
  const classes = compliance.filter((one) => /^\d$/.test(one))
  return [
    server.slice(0, maxName) || 'has no name',
    classes.length > 0 ? `WebDAV ${classes.join(', ')}` : 'does not say that it speaks WebDAV',
  ].join('; ')
}
