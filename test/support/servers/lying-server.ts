import { onTestFinished } from 'vitest'
import { type Handler, openHandlerServer } from './handler-server.ts'

export type { Handler }

/** A server that answers as `handler` says, and remembers what it was asked; `url` is that of `path` there. It ends with the test. */
export async function startLying(path: string, handler: Handler) {
  const server = await openHandlerServer(path, handler)
  onTestFinished(server.close)
  return server
}
