import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { H3 } from 'h3'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { openDrain, tuneConnections } from '../../src/server/http/connections.ts'
import { handleInOrder } from '../../src/server/http/pipelined-requests.ts'
import { listen } from '../../src/server/listen.ts'

async function start(handler: (server: Server) => RequestListener, idleTimeoutMs = 50) {
  const server = createServer()
  const { handler: tracked, drain } = openDrain(handler(server))
  const listener = handleInOrder(tracked)
  server.on('request', listener)
  tuneConnections(server, listener, idleTimeoutMs)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { server, drain, port: (server.address() as AddressInfo).port }
}

async function timeouts(server: Server, count: number): Promise<void> {
  for (let seen = 0; seen < count; seen++) await once(server, 'timeout')
}

test('a handler that works longer than the idle timeout still answers', async () => {
  const { port } = await start((server) => async (request: IncomingMessage, response) => {
    for await (const _ of request);
    await timeouts(server, 3)
    response.write('first ')
    await timeouts(server, 2)
    response.end('last')
  })
  const answer = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' })
  expect([answer.status, await answer.text()]).toEqual([200, 'first last'])
})

test('a client that stops sending its body is disconnected', async () => {
  const { port } = await start(() => (request) => {
    request.on('error', () => {}).resume()
  })
  const socket = connect(port, '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n123')
  socket.resume()
  await once(socket, 'close')
})

test('a client that does not read its answer is disconnected', async () => {
  const { server, port } = await start(() => (_, response) => {
    response.end(Buffer.alloc(64 << 20))
  })
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  const [onServer] = await once(server, 'connection')
  await once(onServer, 'close')
  expect(onServer.destroyed).toBe(true)
})

test('a draining server closes connections after their answers, also of requests that it had already', async () => {
  const { server, drain, port } = await start(
    () => (request, response) => {
      if (request.url !== '/drain') return void response.end()
      drain()
      response.end()
    },
    5000,
  )
  const agent = new Agent({ keepAlive: true })
  onTestFinished(() => agent.destroy())
  const get = async (path: string) => {
    const [answer] = (await once(request({ port, path, agent }).end(), 'response')) as [IncomingMessage]
    answer.resume()
    await once(answer, 'end')
    return answer.headers.connection
  }
  expect([await get('/'), await get('/drain'), await get('/')]).toEqual(['keep-alive', 'close', 'close'])
  expect(server.listening).toBe(true)
})

test('a closing server answers connections that it has not accepted yet', async () => {
  const h3 = new H3().all('/**', async (event) => (await event.req.arrayBuffer()).byteLength)
  const listening = await listen(h3, loadConfig({ env: {}, flags: { 'server.port': 0 } }).config)
  const { port } = listening.server.address() as AddressInfo
  const answers = Array.from({ length: 20 }, async () => {
    const socket = connect(port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc')
    return String(await once(socket, 'data')).slice(0, 12)
  })
  await listening.close(10_000)
  expect(await Promise.all(answers)).toEqual(Array.from({ length: 20 }, () => 'HTTP/1.1 200'))
})
