import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** `count`: of the requests so far, this one among them */
export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void

/** A server that answers as `handler` says, and remembers what it was asked; `url` is that of `path` there. It ends with the test. */
export async function startLying(path: string, handler: Handler) {
  const seen: string[] = []
  const headers: IncomingMessage['headers'][] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    headers.push(request.headers)
    request.resume().on('end', () => handler(request, response, seen.length))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, seen, headers, url: `http://127.0.0.1:${port}${path}` }
}
