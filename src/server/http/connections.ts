/** Connection handling beyond node:http: clients that still send after a refusal (F27), `Expect: 100-continue`, malformed requests, timeouts (F28). */
import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Code, codes } from '../../errors.ts'
import { currentAnswer, whenAnswered } from './pipelined-requests.ts'
import { joinSmallChunks } from './small-chunks.ts'

/** Time for which the rest of a refused body is discarded. */
const drainTimeoutMs = 30_000
/** Time for which the rest of a malformed request is discarded. */
const malformedTimeoutMs = 1000

/**
 * Configures the connections of a server whose requests are handled by `handler`. Uploads and handlers may take any time. A connection is closed if its
 * client neither sends nor reads for `idleTimeoutMs`.
 */
export function tuneConnections(server: Server, handler: RequestListener, idleTimeoutMs: number): void {
  server.requestTimeout = 0
  server.headersTimeout = 20_000
  server.keepAliveTimeout = 65_000
  closeIdleSockets(server, idleTimeoutMs)
  server.prependListener('request', prepareBody)
  server.on('checkContinue', (request, response) => {
    prepareBody(request, response)
    // readChunks() sends the 100.
    void handler(request, response)
  })
  // An unknown expectation is ignored (RFC 9110, 10.1.1): the 417 of node:http has no error body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('clientError', answerMalformed)
  // Without a listener, node:http closes the connection.
  server.on('connect', async (_request, socket) => {
    socket.on('error', () => socket.destroy())
    await whenAnswered(socket)
    answerAndClose(socket, 'METHOD_NOT_ALLOWED', { allow: '' }, 405, 'allow: \r\n')
  })
  // node:http would refuse a request without Host with an empty body. findAmbiguity() refuses it.
  Object.assign(server, { requireHostHeader: false })
}

/** Wraps a handler. After `drain`, every further answer closes its connection: a proxy then connects to another server. */
export function openDrain(handle: RequestListener): { handler: RequestListener; drain(): void } {
  const unanswered = new Set<ServerResponse>()
  let isDraining = false
  return {
    handler(request, response) {
      if (isDraining) response.setHeader('connection', 'close')
      unanswered.add(response)
      response.once('close', () => unanswered.delete(response))
      return handle(request, response)
    },
    drain() {
      isDraining = true
      for (const response of unanswered) if (!response.headersSent) response.setHeader('connection', 'close')
    },
  }
}

/** Closes connections without traffic, except those whose client waits for a handler: an import of thousands of users hashes for minutes. */
function closeIdleSockets(server: Server, idleTimeoutMs: number): void {
  server.setTimeout(idleTimeoutMs, (socket) => {
    const answer = currentAnswer(socket)
    const isHandled = answer?.req.complete === true && answer.writableLength === 0 && socket.writableLength === 0
    // The timer of a socket runs once.
    if (isHandled) socket.setTimeout(idleTimeoutMs)
    else socket.destroy()
  })
}

function prepareBody(request: IncomingMessage, response: ServerResponse): void {
  joinSmallChunks(request)
  drainAfterAnswer(request, response)
}

/** Reads the rest of the body after the answer. Closing at once would reset the connection of a client that still sends, and lose the answer. */
function drainAfterAnswer(request: IncomingMessage, response: ServerResponse): void {
  // Runs before the listener of node:http, which calls destroySoon() if the connection is to be closed after the answer.
  response.prependOnceListener('finish', () => {
    if (request.complete || request.destroyed) return
    const { socket } = request
    const timer = setTimeout(() => socket.destroy(), drainTimeoutMs)
    let isLast = false
    socket.destroySoon = () => {
      isLast = true
      socket.end()
    }
    request.once('close', () => {
      clearTimeout(timer)
      if (isLast) socket.destroy()
      else Reflect.deleteProperty(socket, 'destroySoon')
    })
    request.on('error', () => {})
    request.resume()
  })
}

const statuses: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 }

/** Answers a malformed request, which never reaches a route, with the common error body. */
async function answerMalformed(failure: Error & { code?: string }, socket: Duplex): Promise<void> {
  if (!socket.writable || failure.code === 'ECONNRESET') return void socket.destroy()
  await whenAnswered(socket)
  // The last answer has closed the connection.
  if (!socket.writable) return
  const status = statuses[failure.code ?? ''] ?? 400
  if (status === 431) return void answerAndClose(socket, 'HEADERS_TOO_LARGE', {}, status)
  const issues = [{ path: '', message: `not a valid HTTP request (${STATUS_CODES[status]})` }]
  answerAndClose(socket, 'VALIDATION_ERROR', { issues }, status)
}

/** Sends the common error body to a request that reaches no route, and closes its connection. */
function answerAndClose(socket: Duplex, code: Code, details: object, status: number, headers = ''): void {
  const id = randomUUID()
  const error = { code, message: codes[code][1], details, timestamp: new Date().toISOString(), request_id: id }
  const body = JSON.stringify({ error })
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`
  socket.end(`${head}\r\n${headers}x-request-id: ${id}\r\nconnection: close\r\n\r\n${body}`)
  setTimeout(() => socket.destroy(), malformedTimeoutMs).unref()
}
