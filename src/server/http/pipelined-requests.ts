/**
 * Runs the requests of a connection one after another, in the order of their answers (RFC 9112, 9.3.2). node:http starts all requests of a packet at
 * once: 64 kB hold 2500 of them.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** Maximum number of waiting requests of a connection, and of all connections. Each occupies 3 to 6 kB besides its body. */
const maxWaiting = 1000
const maxWaitingOfAll = 10_000
/** Maximum size of the waiting requests of a connection with their bodies. */
const maxWaitingBytes = 256 << 10

interface Pipeline {
  /** The answer in progress. */
  current: ServerResponse
  readonly waiting: [IncomingMessage, ServerResponse][]
  /** Bytes received before the waiting requests. */
  receivedBefore: number
}

const pipelines = new WeakMap<Duplex, Pipeline>()
let waitingCount = 0

/** Returns a handler that calls `handle` once the earlier requests of the connection are answered. Closes connections with too many requests. */
export function handleInOrder(handle: RequestListener): RequestListener {
  const run = (request: IncomingMessage, response: ServerResponse): void => {
    response.once('close', () => runNext(request.socket))
    void handle(request, response)
  }
  const runNext = (socket: Duplex): void => {
    const pipeline = pipelines.get(socket)
    const next = isOpen(socket) ? pipeline?.waiting.shift() : undefined
    if (!pipeline || !next) {
      endPipeline(socket)
      return
    }
    waitingCount--
    pipeline.current = next[1]
    // Other connections have their turn first.
    setImmediate(() => (isOpen(socket) ? run(...next) : endPipeline(socket)))
  }
  return (request, response) => {
    const { socket } = request
    if (!isOpen(socket)) return
    const pipeline = pipelines.get(socket)
    if (!pipeline) {
      pipelines.set(socket, { current: response, waiting: [], receivedBefore: 0 })
      run(request, response)
    } else if (canWait(pipeline, socket.bytesRead)) {
      waitingCount++
      pipeline.waiting.push([request, response])
    } else socket.destroy()
  }
}

function canWait(pipeline: Pipeline, received: number): boolean {
  if (pipeline.waiting.length === 0) pipeline.receivedBefore = received
  return pipeline.waiting.length < maxWaiting && waitingCount < maxWaitingOfAll && received - pipeline.receivedBefore <= maxWaitingBytes
}

/** Tells if a connection can get further answers. */
const isOpen = (socket: Duplex): boolean => !socket.destroyed && !socket.writableEnded

function endPipeline(socket: Duplex): void {
  const pipeline = pipelines.get(socket)
  if (!pipeline) return
  pipelines.delete(socket)
  waitingCount -= pipeline.waiting.length
}

/** Returns the answer in progress of a connection; undefined if there is none. */
export const currentAnswer = (connection: Duplex): ServerResponse | undefined => pipelines.get(connection)?.current

/**
 * Waits until the complete requests of a connection are answered: their client takes the next answer for that of the first one. A request whose body is
 * malformed is never complete.
 */
export async function whenAnswered(connection: Duplex): Promise<void> {
  for (let answer = currentAnswer(connection); answer?.req.complete; answer = currentAnswer(connection)) await whenClosed(answer)
}

const whenClosed = (answer: ServerResponse): Promise<void> => new Promise((resolve) => answer.once('close', resolve))
