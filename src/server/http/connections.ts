/** What node's HTTP server leaves to us about connections: answers to clients that are still sending, `Expect: 100-continue`, and what is no HTTP. */
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Code, codes } from '../../errors.ts'

/** Time for which the rest of a refused body is read and discarded, so that its sender reads the answer. */
const drainTimeoutMs = 30_000
/** Time for which the rest of a malformed request is read and discarded. */
const malformedTimeoutMs = 1000

/** An upload may take as long as it moves; a connection on which nothing moves for `idle` milliseconds is cut. */
export function tuneConnections(server: Server, handler: RequestListener, idleTimeoutMs: number): void {
  server.requestTimeout = 0
  server.headersTimeout = 20_000
  server.keepAliveTimeout = 65_000
  server.setTimeout(idleTimeoutMs)
  server.prependListener('request', drainAfterAnswer)
  server.on('checkContinue', (request, response) => {
    drainAfterAnswer(request, response)
    continueOnRead(request, response)
    void handler(request, response)
  })
  server.on('clientError', answerMalformed)
}

/** Closing at once would reset the connection under a client that is busy sending, and the answer would be lost with it. */
function drainAfterAnswer(request: IncomingMessage, response: ServerResponse): void {
  // Before node's own listener, which ends the connection here if the client wanted it closed after the answer.
  response.prependOnceListener('finish', () => {
    if (request.complete || request.destroyed) return
    const { socket } = request
    const cut = setTimeout(() => socket.destroy(), drainTimeoutMs)
    let isLast = false
    socket.destroySoon = () => {
      isLast = true
      socket.end()
    }
    request.once('close', () => {
      clearTimeout(cut)
      if (isLast) socket.destroy()
      else Reflect.deleteProperty(socket, 'destroySoon')
    })
    request.on('error', () => {})
    request.resume()
  })
}

/** The client is asked for the body when somebody wants it, so that a request refused by its headers never sends one. */
function continueOnRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read
  request._read = function (this: IncomingMessage, size) {
    request._read = read
    if (!response.headersSent) response.writeContinue()
    read.call(this, size)
  }
}

const statuses: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }

/** What cannot be understood as HTTP never becomes a request; it is answered here, in the shape of all errors. */
function answerMalformed(problem: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || problem.code === 'ECONNRESET') return void socket.destroy()
  const status = statuses[problem.code ?? ''] ?? 400
  const id = randomUUID()
  const isTooLarge = status === 431
  const code: Code = isTooLarge ? 'HEADERS_TOO_LARGE' : 'VALIDATION_ERROR'
  const message = isTooLarge ? codes[code][1] : `This is not a valid HTTP request (${STATUS_CODES[status]}).`
  const error = { code, message, details: {}, timestamp: new Date().toISOString(), request_id: id }
  const body = JSON.stringify({ error })
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`
  socket.end(`${head}\r\nx-request-id: ${id}\r\nconnection: close\r\n\r\n${body}`)
  setTimeout(() => socket.destroy(), malformedTimeoutMs).unref()
}
