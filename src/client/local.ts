/** A client of a server in this very process: the same routes and rules, no socket, no password. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { buildServer } from '../server/http/assemble.ts'
import { type Client, createClient, type Transport } from './client.ts'

/** `actor` null: somebody who is not signed in. */
export const localClient = (app: App, actor: Actor | null): Client => createClient(localTransport(app, actor))

/** Carries requests straight into a server around the App, as if this actor had sent them. */
export function localTransport(app: App, actor: Actor | null): Transport {
  const h3 = buildServer(app)
  return async (request) => h3.request(request, undefined, { ip: '127.0.0.1', isLocal: true, ...(actor ? { actor } : {}) })
}
