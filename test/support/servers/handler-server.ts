/** An HTTP server with a scripted handler. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** `count`: number of requests so far, including this one */
export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void

/** Opens a server on a free port of 127.0.0.1 that records its requests; `url` returns the URL of `path`. The caller closes it. */
export async function openHandlerServer(path: string, handler: Handler) {
  const seen: string[] = []
  const headers: IncomingMessage['headers'][] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    headers.push(request.headers)
    request.resume().on('end', () => handler(request, response, seen.length))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { port, seen, headers, url: `http://127.0.0.1:${port}${path}`, close }
}
