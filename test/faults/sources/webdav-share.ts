/** A WebDAV server that misbehaves on demand, and counts its requests. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Answers a request instead of the share; false: it is answered as usual. */
export type Misbehaviour = (request: IncomingMessage, response: ServerResponse) => boolean

export interface Share {
  readonly url: string
  /** contents by name, in one folder */
  readonly files: Map<string, Buffer>
  /** requests so far */
  requests(): number
  /** Misbehaves from now on, or after this many more requests. */
  misbehave(how: Misbehaviour | null, after?: number): void
  close(): void
}

const entry = (href: string, size: number | null) =>
  `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${size === null ? '<D:collection/>' : ''}</D:resourcetype>` +
  `${size === null ? '' : `<D:getcontentlength>${size}</D:getcontentlength>`}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`

export const multistatus = (entries: readonly string[]): string =>
  `<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">${entries.join('')}</D:multistatus>`
export const folderEntry = (href: string): string => entry(href, null)

/** Opens one on this machine. */
export async function openShare(): Promise<Share> {
  const files = new Map<string, Buffer>()
  let requests = 0
  let how: Misbehaviour | null = null
  let remaining = 0
  const server = createServer((request, response) => {
    requests++
    request.resume()
    if (how && remaining-- <= 0 && how(request, response)) return
    const bytes = files.get((request.url ?? '').slice(1))
    if (request.method === 'GET') {
      if (bytes) response.end(bytes)
      else response.writeHead(404).end()
    } else
      response
        .writeHead(207, { 'content-type': 'application/xml' })
        .end(multistatus([folderEntry('/'), ...[...files].map(([name, { length }]) => entry(`/${name}`, length))]))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    files,
    requests: () => requests,
    misbehave(next, after = 0) {
      how = next
      remaining = after
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
