import { onTestFinished } from 'vitest'
import { type Handler, openHandlerServer } from './handler-server.ts'

export type { Handler }

/** Opens an HTTP server with a scripted handler that records its requests; `url` returns the URL of `path`. It is closed with the test. */
export async function startLying(path: string, handler: Handler) {
  const server = await openHandlerServer(path, handler)
  onTestFinished(server.close)
  return server
}
