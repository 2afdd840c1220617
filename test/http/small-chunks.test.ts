/** Bodies and WebSocket messages in many small parts: their memory, and that bodies arrive whole. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startApp } from '../support/app.ts'
import { startServe } from '../support/processes/service.ts'
import { filePart, hearOut, multipartBody, multipartType, startServer, tokenFor } from '../support/servers/server.ts'

vi.setConfig({ testTimeout: 240_000 })

/** Returns a body in chunks whose sizes repeat the given ones. */
function chunked(body: Buffer, sizes: readonly number[]): Buffer {
  const chunks: Buffer[] = []
  for (let start = 0, index = 0; start < body.length; index++) {
    const chunk = body.subarray(start, start + (sizes[index % sizes.length] ?? 1))
    chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
    start += chunk.length
  }
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')])
}

test('bodies in chunks and packets of any size arrive whole', async () => {
  const { dial, token, asAda } = await startServer()
  const size = fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1000, max: 1048 }), fc.integer({ min: 1, max: 70_000 }))
  const sizes = fc.array(size, { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(sizes, sizes, fc.integer({ min: 0, max: 200_000 }), fc.boolean(), async (chunks, packets, length, isExpecting) => {
      const content = randomBytes(length)
      const sent = chunked(multipartBody([filePart(content, 'random.bin')]), chunks)
      const expectation = isExpecting ? 'expect: 100-continue\r\n' : ''
      const socket = await dial()
      socket.setNoDelay()
      const answer = hearOut(socket)
      socket.write(
        `POST /api/documents HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${expectation}authorization: Bearer ${token}\r\ncontent-type: ${multipartType}\r\ntransfer-encoding: chunked\r\n\r\n`,
      )
      // A few packets of their own, and the rest at once.
      let start = 0
      for (const packet of packets) {
        socket.write(sent.subarray(start, start + packet))
        start += packet
        await sleep(1)
      }
      socket.write(sent.subarray(start))
      const body = (await answer).replace(/^HTTP\/1.1 100 Continue\r\n\r\n/, '')
      if (length === 0) return void expect(body).toMatch(/^HTTP\/1.1 400 /)
      expect(body).toMatch(/^HTTP\/1.1 201 /)
      const { id } = JSON.parse(body.slice(body.indexOf('\r\n\r\n'))) as { id: string }
      const download = await asAda.send('GET', `/api/documents/${id}/download`)
      expect(Buffer.from(await download.arrayBuffer()).equals(content)).toBe(true)
    }),
    { numRuns: 60, seed: 7 },
  )
})

/** Sends 32 unfinished bodies of 63 kB in chunks of one byte to a server with a heap of 200 MB. It must answer others meanwhile. */
async function sendUnfinished({ url, said }: { url: string; said: readonly string[] }, path: string, headers: string): Promise<void> {
  const start = `POST ${path} HTTP/1.1\r\nhost: a\r\n${headers}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`
  const body = `${start}d\r\n{"username":"\r\n${'1\r\nx\r\n'.repeat(63_000)}`
  for (let count = 0; count < 32; count++) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
    onTestFinished(() => void socket.destroy())
    await new Promise((sent) => socket.write(body, sent))
    // A kept connection could reach its timeout while the server reads the body.
    expect((await fetch(new URL('/livez', url), { headers: { connection: 'close' } })).status).toBe(200)
  }
  expect(said).toEqual([expect.stringContaining('listening on')])
}

const smallHeap = { NODE_OPTIONS: '--max-old-space-size=200' }

test('unfinished bodies in chunks of one byte occupy no multiple of their size', async () => {
  await sendUnfinished(await startServe(await startApp(), smallHeap), '/api/auth/login', '')
})

test('unfinished bodies in chunks of one byte occupy no multiple of their size while their requests wait for the database', async () => {
  const dms = await startApp()
  const server = await startServe(dms, smallHeap)
  const token = await tokenFor(dms.app, dms.admin)
  await dms.app.db.transaction().execute(async (trx) => {
    await sql`lock table users in access exclusive mode`.execute(trx)
    await sendUnfinished(server, '/api/labels', `authorization: Bearer ${token}\r\n`)
  })
})

test('unfinished WebSocket messages without a session in fragments of one byte occupy no multiple of their size', async () => {
  const { url, said } = await startServe(await startApp(), smallHeap)
  const { port, host } = new URL(url)
  const handshake = `GET /ws HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${randomBytes(16).toString('base64')}\r\n\r\n`
  // Text, then its continuations, each of one byte with the mask 0.
  const fragments = Buffer.concat([
    Buffer.from([0x01, 0x81, 0, 0, 0, 0, 0x7b]),
    ...Array.from({ length: 16_000 }, () => Buffer.from([0x00, 0x81, 0, 0, 0, 0, 0x20])),
  ])
  const sockets = Array.from({ length: 100 }, () => connect(Number(port), '127.0.0.1').on('error', () => {}))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  const closes = await Promise.all(
    sockets.map(async (socket) => {
      const received: Buffer[] = []
      socket.on('data', (chunk: Buffer) => received.push(chunk))
      socket.write(handshake)
      await once(socket, 'data')
      const closing = new Promise((resolve) => socket.once('close', resolve))
      socket.write(fragments)
      await closing
      return Buffer.concat(received).includes(Buffer.from([0x88, 0x02, 0x03, 0xf0]))
    }),
  )
  // Closed with 1008.
  expect(closes.filter(Boolean)).toHaveLength(100)
  expect((await fetch(new URL('/livez', url))).status).toBe(200)
  expect(said).toEqual([expect.stringContaining('listening on')])
})
