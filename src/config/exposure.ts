/** Finds settings that expose the server to others, or make its links useless. */
import { isIP } from 'node:net'
import type { Config } from './schema.ts'

export interface ExposureFinding {
  readonly message: string
  readonly fix: string
}

/** Returns whether only this machine can reach the host. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

/** Returns the public URL of a server that has none in its configuration: the address of its listener, if that is known. */
export function defaultPublicUrl({ host, port, tls_cert, socket, public_url }: Config['server']): string {
  const isNamed = !isLoopback(host) && host !== '0.0.0.0' && host !== '::'
  const name = isNamed ? (isIP(host) === 6 ? `[${host}]` : host) : 'localhost'
  const url = `${tls_cert === '' ? 'http' : 'https'}://${name}:${port}`
  return socket === '' && port !== 0 && URL.canParse(url) ? url : public_url
}

/** Finds open registration, unencrypted passwords and links that do not lead to the server. */
export function findExposure({ server, auth }: Config): ExposureFinding[] {
  const { host, port, public_url, trusted_proxies, tls_cert, socket } = server
  const isPublic = socket === '' && !isLoopback(host)
  const hasProxy = trusted_proxies.length > 0
  const listener = socket || `${host}:${port}`
  const url = new URL(public_url)
  const urlPort = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  const isOpen = auth.enable_registration && auth.method === 'local'
  const findings: ExposureFinding[] = []
  if (isOpen && (isPublic || hasProxy || !isLoopback(url.hostname)))
    findings.push({
      message: `anyone who reaches ${isPublic ? listener : public_url} can register`,
      fix: 'ENABLE_REGISTRATION=false, or auth.enable_registration',
    })
  if (isPublic && tls_cert === '' && !hasProxy)
    findings.push({
      message: `passwords are sent unencrypted to ${listener}`,
      fix: 'set server.tls_cert and server.tls_key, or listen on 127.0.0.1 behind a proxy',
    })
  if (isLoopback(url.hostname) && (isPublic || hasProxy))
    findings.push({
      message: `links begin with ${public_url}, which works on this machine only`,
      fix: 'set server.public_url to the address that users type',
    })
  else if (!isLoopback(url.hostname) && !isPublic && !hasProxy)
    findings.push({
      message: `links begin with ${public_url}, but only this machine reaches ${listener}`,
      fix: 'set server.trusted_proxies to the address of the proxy, or server.host to 0.0.0.0',
    })
  else if (socket === '' && !hasProxy && port !== 0 && (urlPort !== port || (url.protocol === 'https:') !== (tls_cert !== '')))
    findings.push({
      message: `links begin with ${public_url}, but the server listens on port ${port} ${tls_cert === '' ? 'without' : 'with'} TLS`,
      fix: 'change server.public_url, or remove it to follow server.port',
    })
  return findings
}
