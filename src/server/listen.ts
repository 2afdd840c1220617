/** Opens the port (or socket) and, at the end, closes it without cutting anybody off. */
import { chmod, readFile, stat, unlink } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import type { Config } from '../config.ts'
import { ConfigError } from '../errors.ts'
import { tuneConnections } from './connections.ts'

export interface Listening {
  /** http://127.0.0.1:8080, or unix:/run/dms.sock */
  readonly url: string
  readonly server: Server
  /** Takes nothing new, lets requests in flight end for `timeout` milliseconds, then cuts what is left. */
  close(timeout: number): Promise<void>
}

/** Serves. Throws ConfigError where the address cannot be had. */
export async function listen(h3: H3, config: Config): Promise<Listening> {
  const handler = toNodeHandler(h3) as unknown as RequestListener
  const { server, url } = config.server.socket === '' ? await onPort(handler, config) : await onSocket(handler, config.server.socket)
  tuneConnections(server, handler, config.server.request_timeout)
  return { url, server, close: (timeout) => close(server, timeout) }
}

async function onPort(
  handler: RequestListener,
  { server: { host, port, tls_cert, tls_key } }: Config,
): Promise<{ server: Server; url: string }> {
  const isSecure = tls_cert !== ''
  const server = isSecure ? createSecureServer({ cert: await pem(tls_cert), key: await pem(tls_key) }, handler) : createServer(handler)
  await open(server, (ready) => server.listen(port, host, ready), `server.port: ${port} on ${host} cannot be had`)
  const address = server.address() as AddressInfo
  const name = host.includes(':') ? `[${host}]` : host
  return { server, url: `${isSecure ? 'https' : 'http'}://${name}:${address.port}` }
}

const pem = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((error: Error) => {
    throw new ConfigError([`${path}: ${error.message}`])
  })

const open = (server: Server, begin: (ready: () => void) => void, problem: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new ConfigError([`${problem} (${error.message})`])))
    begin(resolve)
  })

async function onSocket(handler: RequestListener, path: string): Promise<{ server: Server; url: string }> {
  const server = createServer(handler)
  await removeLeft(path)
  await open(server, (ready) => server.listen(path, ready), `server.socket: ${path} cannot be had`)
  await chmod(path, 0o660)
  return { server, url: `unix:${path}` }
}

/** A socket that nobody listens on any more is what a crash left; anything else stays, and listening fails. */
async function removeLeft(path: string): Promise<void> {
  const isSocket = await stat(path).then(
    (found) => found.isSocket(),
    () => false,
  )
  if (!isSocket) return
  const isServed = await new Promise<boolean>((resolve) => {
    const client = connect(path, () => resolve(true)).on('error', () => resolve(false))
    client.on('connect', () => client.end())
  })
  if (!isServed) await unlink(path)
}

async function close(server: Server, timeout: number): Promise<void> {
  const cut = setTimeout(() => server.closeAllConnections(), timeout)
  // Again and again: a kept-alive connection whose request has just ended is idle from then on.
  const tidy = setInterval(() => server.closeIdleConnections(), 50)
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
  clearTimeout(cut)
  clearInterval(tidy)
}
