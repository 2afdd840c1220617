/** Client of a server in this process: same routes and rules, without socket and password. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { buildServer } from '../server/http/assemble.ts'
import { type Client, createClient, type Transport } from './client.ts'

/** Creates a client. `actor` null means anonymous. */
export const localClient = (app: App, actor: Actor | null): Client => createClient(localTransport(app, actor))

/** Creates a transport that passes requests to an in-process server on behalf of `actor`. `server` is that of the App, for transports that share one. */
export function localTransport(app: App, actor: Actor | null, server = buildServer(app)): Transport {
  return async (request) => server.request(request, undefined, { ip: '127.0.0.1', isLocal: true, ...(actor ? { actor } : {}) })
}
