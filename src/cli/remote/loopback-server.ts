/** The server that the configuration of this machine describes, as a place to ask whether it is there. */
import { Agent, request } from 'undici'
import type { Config } from '../../config/schema.ts'
import { loadCertificates } from './remote-client.ts'

export interface Endpoint {
  readonly url: string
  readonly dispatcher: Agent
}

/** The configured listener. Its certificate is for its public name, not for this address, and nothing secret is asked: it is not checked. */
export function openLocalEndpoint({ host, port, socket, tls_cert }: Config['server']): Endpoint {
  if (socket !== '') return { url: 'http://localhost', dispatcher: new Agent({ connect: { socketPath: socket } }) }
  const address = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return {
    url: `${tls_cert === '' ? 'http' : 'https'}://${address}:${port}`,
    dispatcher: new Agent({ connect: { rejectUnauthorized: false } }),
  }
}

/** A server elsewhere; its certificate is checked. */
export const openRemoteEndpoint = async (url: string, caFile: string | null): Promise<Endpoint> => ({
  url,
  dispatcher: new Agent({ connect: await loadCertificates({ caFile }) }),
})

/** The status and the body that a path answers within so many milliseconds. */
export async function fetchText({ url, dispatcher }: Endpoint, path: string, patience: number): Promise<{ status: number; body: string }> {
  const answer = await request(`${url}${path}`, { dispatcher, signal: AbortSignal.timeout(patience) })
  return { status: answer.statusCode, body: await answer.body.text() }
}
