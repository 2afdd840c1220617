/** Opens the port (or socket) and, at the end, closes it without cutting anybody off. */
import { chmod, readFile, stat, unlink } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import { type ListenOptions, listen as listenOnPort } from 'listhen'
import type { Config } from '../config/schema.ts'
import { ConfigError } from '../errors.ts'
import { tuneConnections } from './http/connections.ts'
import { describePortOwner } from './port-owner.ts'

export interface RunningServer {
  /** http://127.0.0.1:8080, or unix:/run/dms.sock */
  readonly url: string
  readonly server: Server
  /** Reads the certificate again, for connections from now on. Rejects, and keeps the old one, where that is no good. */
  renewCertificate(): Promise<void>
  /** Takes nothing new, lets requests in flight end for `timeout` milliseconds, then cuts what is left. */
  close(timeout: number): Promise<void>
}

/** Serves; on the socket `passed` (its file's number), where somebody has opened one for us. Throws ConfigError where the address cannot be had, Error where another process has it. */
export async function listen(h3: H3, config: Config, passed: number | null = null): Promise<RunningServer> {
  const handler = toNodeHandler(h3) as unknown as RequestListener
  const { server, url } = await openServer(handler, config, passed)
  tuneConnections(server, handler, config.server.request_timeout)
  const renewCertificate = async () => {
    const tls = await loadTls(config)
    if (tls) (server as unknown as SecureServer).setSecureContext(tls)
  }
  return { url, server, renewCertificate, close: (timeout) => close(server, timeout) }
}

/** Takes the address that listen() would, and gives it back; a socket that somebody has opened for us is had. Throws as listen() does. */
export async function tryListening(config: Config, passed: number | null = null): Promise<void> {
  if (passed !== null) return
  const { server } = await openServer((_, response) => void response.writeHead(503, { connection: 'close' }).end(), config, null)
  await close(server, 0)
}

type Opened = Promise<{ server: Server; url: string }>

function openServer(handler: RequestListener, config: Config, passed: number | null): Opened {
  if (passed !== null) return openPassedSocket(handler, config, passed)
  return config.server.socket === '' ? openPort(handler, config) : openSocket(handler, config.server.socket)
}

async function openPort(handler: RequestListener, config: Config): Opened {
  const { host, port } = config.server
  const tls = await loadTls(config)
  const server = port === 0 ? await openAnyPort(handler, host, tls) : await openFixedPort(handler, host, port, tls)
  const address = server.address() as AddressInfo
  return { server, url: urlOf({ ...address, address: host }, tls) }
}

async function openPassedSocket(handler: RequestListener, config: Config, fd: number): Opened {
  const tls = await loadTls(config)
  const server = tls ? createSecureServer(tls, handler) : createServer(handler)
  await open(server, (ready) => server.listen({ fd }, ready), 'the socket of systemd cannot be had')
  const address = server.address()
  return {
    server,
    url: address !== null && typeof address === 'object' && 'port' in address ? urlOf(address, tls) : 'the socket of systemd',
  }
}

const urlOf = ({ address, port }: AddressInfo, tls: Tls): string =>
  `${tls ? 'https' : 'http'}://${address.includes(':') ? `[${address}]` : address}:${port}`

type Tls = { cert: string; key: string } | null

async function loadTls({ server: { tls_cert, tls_key } }: Config): Promise<Tls> {
  return tls_cert === '' ? null : { cert: await readPem(tls_cert), key: await readPem(tls_key) }
}

/** Every option said: left alone, listhen takes another port when this one is taken, prints banners and exits on SIGTERM. */
async function openFixedPort(handler: RequestListener, hostname: string, port: number, tls: Tls): Promise<Server> {
  const options = { hostname, port: { port, alternativePortRange: [], ports: [], random: false, verbose: false }, https: tls ?? false }
  const quiet = {
    public: false,
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
    const { server } = await listenOnPort(handler, { ...options, ...quiet } as unknown as Partial<ListenOptions>)
    return server as Server
  } catch (error) {
    throw await explainPortError(hostname, port, error as Error)
  }
}

/** A port that somebody else has may be free at the next start; anything else, a certificate too, is wrong in the configuration. */
async function explainPortError(hostname: string, port: number, thrown: Error): Promise<Error> {
  const probe = createServer()
  const error = await open(probe, (ready) => probe.listen(port, hostname, ready), '').then(
    () => null,
    (failed: ConfigError) => failed.cause as NodeJS.ErrnoException,
  )
  probe.close()
  if (error?.code !== 'EADDRINUSE')
    return new ConfigError([`server.port: ${port} on ${hostname} cannot be had (${(error ?? thrown).message})`])
  const owner = await describePortOwner(port)
  return new Error(`port ${port} on ${hostname} is in use${owner ? ` (${owner})` : ''}`)
}

/** Port 0 is the system's to choose, which listhen would not let it. */
async function openAnyPort(handler: RequestListener, host: string, tls: Tls): Promise<Server> {
  const server = tls ? createSecureServer(tls, handler) : createServer(handler)
  await open(server, (ready) => server.listen(0, host, ready), `server.port: none on ${host} can be had`)
  return server
}

const readPem = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch((error: Error) => {
    throw new ConfigError([`${path}: ${error.message}`])
  })

const open = (server: Server, begin: (ready: () => void) => void, problem: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', (error) => reject(Object.assign(new ConfigError([`${problem} (${error.message})`]), { cause: error })))
    begin(resolve)
  })

async function openSocket(handler: RequestListener, path: string): Opened {
  const server = createServer(handler)
  await removeStaleSocket(path)
  await open(server, (ready) => server.listen(path, ready), `server.socket: ${path} cannot be had`)
  await chmod(path, 0o660)
  return { server, url: `unix:${path}` }
}

/** A socket that nobody listens on any more is what a crash left; anything else stays, and listening fails. */
async function removeStaleSocket(path: string): Promise<void> {
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
  const closeIdle = setInterval(() => server.closeIdleConnections(), 50)
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
  clearTimeout(cut)
  clearInterval(closeIdle)
}
