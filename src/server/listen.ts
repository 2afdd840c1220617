/** Opens the port or socket of the server, and closes it after requests in flight have ended. */
import { chmod, stat, unlink } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { H3 } from 'h3'
import { toNodeHandler } from 'h3/node'
import { type ListenOptions, listen as listenOnPort } from 'listhen'
import { type KeyPair, readKeyPair } from '../certificates.ts'
import type { Config } from '../config/schema.ts'
import { ConfigError } from '../errors.ts'
import { openDrain, tuneConnections } from './http/connections.ts'
import { handleInOrder } from './http/pipelined-requests.ts'
import { describePortOwner } from './port-owner.ts'

/** Duration of a turn of the event loop that did hardly anything. */
const shortTurnMs = 0.3
const maxAcceptMs = 2000

export interface RunningServer {
  /** `http://127.0.0.1:8080` or `unix:/run/dms.sock`. */
  readonly url: string
  readonly server: Server
  /** Loads the certificate again for new connections. Rejects, and keeps the old one, if it is invalid. */
  renewCertificate(): Promise<void>
  /** From now on, every answer closes its connection. */
  drain(): void
  /** Closes the port, waits up to `timeoutMs` for requests in flight, then closes all connections. */
  close(timeoutMs: number): Promise<void>
}

/**
 * Starts the server on its address, or on the file descriptor `passedFd` of systemd. Throws ConfigError for an unusable address and Error for an
 * address in use.
 */
export async function listen(h3: H3, config: Config, passedFd: number | null = null): Promise<RunningServer> {
  const handle = toNodeHandler(h3) as unknown as RequestListener
  let accepted: Promise<void> | null = null
  const { handler, drain } = openDrain((request, response) => {
    if (accepted) void accepted.then(() => handle(request, response))
    else void handle(request, response)
  })
  const inOrder = handleInOrder(handler)
  const { server, url } = await openServer(inOrder, config, passedFd)
  tuneConnections(server, inOrder, config.server.request_timeout)
  const renewCertificate = async () => {
    const tls = loadTls(config)
    if (tls) (server as unknown as SecureServer).setSecureContext(tls)
  }
  const closeServer = (timeoutMs: number) => {
    // Handlers would delay the next turn of the event loop, in which the next connection is accepted.
    accepted = acceptWaiting(server)
    return close(server, timeoutMs, accepted)
  }
  return { url, server, renewCertificate, drain, close: closeServer }
}

/** Checks that listen() would succeed. Throws like listen(). */
export async function tryListening(config: Config, passedFd: number | null): Promise<void> {
  if (passedFd !== null) return
  const { server } = await openServer((_, response) => void response.writeHead(503, { connection: 'close' }).end(), config, null)
  await close(server, 0)
}

type Opened = Promise<{ server: Server; url: string }>

function openServer(handler: RequestListener, config: Config, passedFd: number | null): Opened {
  if (passedFd !== null) return openPassedSocket(handler, config, passedFd)
  return config.server.socket === '' ? openPort(handler, config) : openSocket(handler, config.server.socket)
}

async function openPort(handler: RequestListener, config: Config): Opened {
  const { host, port } = config.server
  const tls = loadTls(config)
  const server = port === 0 ? await openAnyPort(handler, host, tls) : await openFixedPort(handler, host, port, tls)
  const address = server.address() as AddressInfo
  return { server, url: urlOf({ ...address, address: host }, tls) }
}

async function openPassedSocket(handler: RequestListener, config: Config, fd: number): Opened {
  const tls = loadTls(config)
  const server = tls ? createSecureServer(tls, handler) : createServer(handler)
  await open(server, (ready) => server.listen({ fd }, ready), 'cannot listen on the socket of systemd')
  const address = server.address()
  return {
    server,
    url: address !== null && typeof address === 'object' && 'port' in address ? urlOf(address, tls) : 'the socket of systemd',
  }
}

const urlOf = ({ address, port }: AddressInfo, tls: Tls): string =>
  `${tls ? 'https' : 'http'}://${address.includes(':') ? `[${address}]` : address}:${port}`

type Tls = KeyPair | null

const loadTls = ({ server }: Config): Tls => (server.tls_cert === '' ? null : readKeyPair(server))

/** Opens a port with listhen. By default, listhen would choose another port if this port is used, print banners and exit on SIGTERM. */
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

/** Returns an Error if another process uses the port, because it may be free at the next start. Returns a ConfigError for any other cause. */
async function explainPortError(hostname: string, port: number, thrown: Error): Promise<Error> {
  const probe = createServer()
  const error = await open(probe, (ready) => probe.listen(port, hostname, ready), '').then(
    () => null,
    (failed: ConfigError) => failed.cause as NodeJS.ErrnoException,
  )
  probe.close()
  if (error?.code !== 'EADDRINUSE')
    return new ConfigError([`server.port: cannot listen on ${port} of ${hostname} (${(error ?? thrown).message})`])
  const owner = await describePortOwner(port)
  return new Error(`port ${port} on ${hostname} is in use${owner ? ` (${owner})` : ''}`)
}

/** Opens a port chosen by the system, which listhen does not support. */
async function openAnyPort(handler: RequestListener, host: string, tls: Tls): Promise<Server> {
  const server = tls ? createSecureServer(tls, handler) : createServer(handler)
  await open(server, (ready) => server.listen(0, host, ready), `server.port: cannot listen on any port of ${host}`)
  return server
}

const open = (server: Server, begin: (ready: () => void) => void, problem: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', (error) => reject(Object.assign(new ConfigError([`${problem} (${error.message})`]), { cause: error })))
    begin(resolve)
  })

async function openSocket(handler: RequestListener, path: string): Opened {
  const server = createServer(handler)
  await removeStaleSocket(path)
  await open(server, (ready) => server.listen(path, ready), `server.socket: cannot listen on ${path}`)
  await chmod(path, 0o660)
  return { server, url: `unix:${path}` }
}

/** Removes a socket without a listener, which a crash left. Anything else stays, and listening fails. */
async function removeStaleSocket(path: string): Promise<void> {
  const isSocket = await stat(path).then(
    (stats) => stats.isSocket(),
    () => false,
  )
  if (!isSocket) return
  const isServed = await new Promise<boolean>((resolve) => {
    const client = connect(path, () => resolve(true)).on('error', () => resolve(false))
    client.on('connect', () => client.end())
  })
  if (!isServed) await unlink(path)
}

/**
 * Resolves when no connection waits to be accepted, or after two seconds. Closing the port would reset waiting connections. Node accepts one
 * connection in a turn of its event loop: after a short turn without a connection, none is waiting.
 */
async function acceptWaiting(server: Server): Promise<void> {
  const deadline = performance.now() + maxAcceptMs
  let acceptedCount = 0
  const onConnection = () => {
    acceptedCount++
  }
  server.on('connection', onConnection)
  await setImmediate()
  for (let startedAt = 0; startedAt < deadline; ) {
    startedAt = performance.now()
    const before = acceptedCount
    await setImmediate()
    if (acceptedCount === before && performance.now() - startedAt < shortTurnMs) break
  }
  server.off('connection', onConnection)
}

async function close(server: Server, timeoutMs: number, accepted: Promise<void> = Promise.resolve()): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), timeoutMs)
  await accepted
  // Repeats, because a keep-alive connection becomes idle when its request ends.
  const closeIdle = setInterval(() => server.closeIdleConnections(), 50)
  await new Promise<void>((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
  clearTimeout(timer)
  clearInterval(closeIdle)
}
