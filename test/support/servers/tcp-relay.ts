/** A relay to an HTTP server that can be cut, or discard what is sent. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** Opens it; it is closed with the test. */
export async function startTcpRelay(to: string) {
  const { hostname, port } = new URL(to)
  const open = new Set<Socket>()
  let isSilent = false
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one
        .on('error', () => {})
        .on('close', () => {
          open.delete(one)
          other.destroy()
        })
      if (!isSilent) one.pipe(other)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const own = (server.address() as AddressInfo).port
  const drop = () => {
    for (const socket of open) socket.destroy()
  }
  onTestFinished(() => {
    drop()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${own}/`,
    /** Closes all connections; new ones work. */
    drop,
    /** Refuses connections until resume(). */
    async cut() {
      drop()
      const closed = once(server, 'close')
      server.close()
      await closed
    },
    async resume() {
      server.listen(own, '127.0.0.1')
      await once(server, 'listening')
    },
    /** Accepts connections and answers nothing. */
    silence(silent: boolean) {
      isSilent = silent
      drop()
    },
  }
}
