/** A reverse proxy in front of several servers: requests and WebSockets go to each ready one in turn. */
import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const checkIntervalMs = 100

/**
 * Opens it on a free port. A server is ready if /readyz says 200; it is asked ten times a second. A request goes to the next server if its
 * connection is refused, and fails with 502 if it breaks later, because it may have been executed.
 */
export async function openRoundRobin(targets: readonly URL[]) {
  const ready = new Set<URL>(targets)
  const agents = new Map(targets.map((target) => [target, new Agent({ keepAlive: true })]))
  /** requests that broke on the way to a server */
  const broken: string[] = []
  let count = 0

  const next = (tried: ReadonlySet<URL>): URL | undefined => {
    const usable = targets.filter((target) => !tried.has(target))
    const choices = usable.some((target) => ready.has(target)) ? usable.filter((target) => ready.has(target)) : usable
    return choices[count++ % choices.length]
  }

  const server = createServer((incoming, outgoing) => {
    const fail = (error: Error) => {
      broken.push(`${incoming.method} ${incoming.url}: ${error.message}`)
      if (outgoing.headersSent) outgoing.destroy()
      else outgoing.writeHead(502).end(error.message)
    }
    const forward = (tried: ReadonlySet<URL>): void => {
      const target = next(tried)
      if (!target) {
        fail(new Error('no server is ready'))
        return
      }
      const options = { method: incoming.method ?? '', headers: forwarded(incoming), agent: agents.get(target) as Agent }
      const onward = request(new URL(incoming.url ?? '/', target), options, (answer) => {
        const { connection: _, 'keep-alive': __, ...headers } = answer.headers
        outgoing.writeHead(answer.statusCode ?? 502, headers)
        answer.on('error', fail).pipe(outgoing)
      })
      onward.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ECONNREFUSED') return fail(error)
        incoming.unpipe(onward)
        forward(new Set([...tried, target]))
      })
      // The body waits for the connection, so that it can go to another server.
      onward.once('socket', (socket) => {
        if (socket.connecting) socket.once('connect', () => incoming.pipe(onward))
        else incoming.pipe(onward)
      })
    }
    forward(new Set())
  })
  server.on('upgrade', (incoming, near, head) => {
    const target = next(new Set())
    if (!target) return near.destroy()
    const far = connect(Number(target.port), target.hostname, () => {
      const lines = Object.entries(forwarded(incoming)).map(([name, value]) => `${name}: ${String(value)}`)
      far.write(`GET ${incoming.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`)
      far.write(head)
      far.pipe(near).pipe(far)
    })
    for (const side of [near, far])
      side.on('error', () => {
        near.destroy()
        far.destroy()
      })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  let isClosed = false
  const watch = async (target: URL) => {
    while (!isClosed) {
      const isReady = await fetch(new URL('/readyz', target), { signal: AbortSignal.timeout(5000) }).then(
        ({ ok }) => ok,
        () => false,
      )
      if (isReady) ready.add(target)
      else ready.delete(target)
      await sleep(checkIntervalMs)
    }
  }
  const watching = Promise.all(targets.map(watch))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    broken,
    isReady: (target: URL) => ready.has(target),
    async close() {
      isClosed = true
      server.closeAllConnections()
      server.close()
      for (const agent of agents.values()) agent.destroy()
      await watching
    },
  }
}

const forwarded = ({ headers, socket }: IncomingMessage) => ({ ...headers, 'x-forwarded-for': socket.remoteAddress ?? '' })
