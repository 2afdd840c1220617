/** WebSockets for one process without a server, on a socket in a private folder. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { App } from '../app.ts'
import { openWebSockets } from './websocket/websocket.ts'

/** Opens /ws on a new socket and returns its path. */
export async function openLocalSocket(app: App): Promise<{ readonly path: string; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-events-'))
  const path = join(folder, 'socket')
  const server = createServer()
  const close = async () => {
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await once(server.listen(path), 'listening')
    const live = await openWebSockets(app, server)
    return { path, close: () => live.close().then(close) }
  } catch (error) {
    await close()
    throw error
  }
}
