/** Requests to the listener of this machine or of a remote server, for health checks. */
import { Agent, request } from 'undici'
import type { Config } from '../../config/schema.ts'
import { loadCertificates } from './remote-client.ts'

export interface Endpoint {
  readonly url: string
  readonly dispatcher: Agent
}

/** Opens the configured listener. Its certificate is not verified: it names the public host, and no secret is sent. */
export function openLocalEndpoint({ host, port, socket, tls_cert }: Config['server']): Endpoint {
  if (socket !== '') return { url: 'http://localhost', dispatcher: new Agent({ connect: { socketPath: socket } }) }
  const anyAddress: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }
  const address = anyAddress[host] ?? host
  return {
    url: `${tls_cert === '' ? 'http' : 'https'}://${address.includes(':') ? `[${address}]` : address}:${port}`,
    dispatcher: new Agent({ connect: { rejectUnauthorized: false } }),
  }
}

/** Returns a remote server. Requests verify its certificate. */
export const openRemoteEndpoint = async (url: string, caFile: string | null): Promise<Endpoint> => ({
  url,
  dispatcher: new Agent({ connect: loadCertificates({ caFile }) }),
})

/** Fetches status and body of a path within `timeoutMs` ms. */
export async function fetchText({ url, dispatcher }: Endpoint, path: string, timeoutMs: number): Promise<{ status: number; body: string }> {
  const answer = await request(`${url}${path}`, { dispatcher, signal: AbortSignal.timeout(timeoutMs) })
  return { status: answer.statusCode, body: await answer.body.text() }
}
