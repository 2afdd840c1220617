/** Opens the port (or socket) and, at the end, closes it without cutting anybody off. */
import { chmod, unlink } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import { listen as openPort } from 'listhen'
import type { Config } from '../config.ts'
import { ConfigError } from '../errors.ts'

export interface Listening {
  /** http://127.0.0.1:8080, or unix:/run/dms.sock */
  readonly url: string
  /** Takes nothing new, lets requests in flight end for `timeout` milliseconds, then cuts what is left. */
  close(timeout: number): Promise<void>
}

/** Serves. Throws ConfigError where the address cannot be had. */
export async function listen(h3: H3, config: Config): Promise<Listening> {
  const handler = toNodeHandler(h3) as unknown as RequestListener
  const { server, url } = config.server.socket === '' ? await onPort(handler, config) : await onSocket(handler, config.server.socket)
  // An upload may take as long as it moves; a connection on which nothing moves is cut.
  server.requestTimeout = 0
  server.headersTimeout = 20_000
  server.keepAliveTimeout = 65_000
  server.setTimeout(config.server.request_timeout)
  return { url, close: (timeout) => close(server, timeout) }
}

async function onPort(
  handler: RequestListener,
  { server: { host, port, tls_cert, tls_key } }: Config,
): Promise<{ server: Server; url: string }> {
  const https = tls_cert === '' ? false : { cert: tls_cert, key: tls_key }
  // Every option said: left alone, listhen would move to another port, print banners and exit on SIGTERM.
  const options = {
    port,
    hostname: host,
    public: false,
    https,
    isProd: true,
    isTest: false,
    autoClose: false,
    showURL: false,
    qr: false,
    open: false,
    clipboard: false,
    tunnel: false,
    ws: false,
  }
  try {
    const { server } = await openPort(handler, options)
    const address = server.address() as AddressInfo
    const name = host.includes(':') ? `[${host}]` : host
    return { server: server as Server, url: `${https ? 'https' : 'http'}://${name}:${address.port}` }
  } catch (error) {
    if (/port|EADDR|address/i.test((error as Error).message))
      throw new Error(`port ${port} on ${host} is in use or cannot be had (${(error as Error).message})`)
    throw error
  }
}

async function onSocket(handler: RequestListener, path: string): Promise<{ server: Server; url: string }> {
  const server = createServer(handler)
  await unlink(path).catch(() => {})
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new ConfigError([`server.socket ${path}: ${error.message}`])))
    server.listen(path, resolve)
  })
  await chmod(path, 0o660)
  return { server, url: `unix:${path}` }
}

async function close(server: Server, timeout: number): Promise<void> {
  const cut = setTimeout(() => server.closeAllConnections(), timeout)
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
  clearTimeout(cut)
}
