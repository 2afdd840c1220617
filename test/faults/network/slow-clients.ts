/** F28: clients that send headers or bodies, or read answers, endlessly slowly. */
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

/** seconds after which a client that does not complete its headers must be disconnected */
const headerPatience = 60
const crowd = 300

export const slowClients: Fault = { id: 'F28', name: 'slow headers, slow bodies, slow readers, idle connections', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  const { id } = await caller.uploadBytes(20_000_000)
  const p99 = async () => {
    const times: number[] = []
    for (let count = 0; count < 100; count++) times.push((await caller.list()).seconds)
    return times.toSorted((a, b) => a - b)[98] ?? 0
  }
  const before = await p99()
  const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length
  const atRest = descriptors()

  const open = async (text: string): Promise<Socket> => {
    const socket = connect(installation.port, '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    socket.write(text)
    return socket
  }
  // Ignores the error of a write after the end of the connection.
  const closed = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const head = `host: x\r\nauthorization: Bearer ${caller.token()}\r\n`
  const many = (count: number, text: string) => Promise.all(Array.from({ length: count }, () => open(text)))
  const headers = await many(crowd, 'GET /api/documents HTTP/1.1\r\nhost: x\r\nx-')
  const bodies = await many(
    crowd / 3,
    `POST /api/labels HTTP/1.1\r\n${head}content-type: application/json\r\ncontent-length: 100000\r\n\r\n{`,
  )
  const readers = await many(20, `GET /api/documents/${id}/download HTTP/1.1\r\n${head}\r\n`)
  const idle = await many(crowd, '')
  for (const socket of readers) socket.pause()
  const dripping = setInterval(() => {
    for (const socket of [...headers, ...bodies]) socket.write('a')
  }, 1000)

  const startedAt = performance.now()
  const cutAfter = Promise.all(headers.map(closed)).then(() => (performance.now() - startedAt) / 1000)
  const during = await p99()
  expect(during < Math.max(10 * before, isShort ? 5 : 1), `the slowest answers took ${during.toFixed(2)} s, ${before.toFixed(2)} s before`)
  notes.push(`p99 of others ${(before * 1000).toFixed(0)} ms before, ${(during * 1000).toFixed(0)} ms during`)
  expect(await slowUpload(isShort ? 2 : 30), 'a slow upload that moves is refused')
  if (!isShort) {
    const seconds = await Promise.race([cutAfter, sleep((headerPatience + 10) * 1000).then(() => Number.POSITIVE_INFINITY)])
    expect(seconds <= headerPatience, `slow headers were cut after ${seconds} s`)
    notes.push(`slow headers cut after ${seconds.toFixed(0)} s`)
  }
  clearInterval(dripping)
  for (const socket of [...headers, ...bodies, ...readers, ...idle]) socket.destroy()
  // The pool closes a connection after ten seconds without a query.
  for (const end = performance.now() + 60_000; descriptors() > atRest + 2 && performance.now() < end; ) await sleep(100)
  expect(descriptors() <= atRest + 2, `I13 ${descriptors()} descriptors, ${atRest} before`)
  expect(server.isRunning(), 'the server ended')
  const result = await faultRun.finish(`${headers.length + bodies.length + readers.length + idle.length} slow clients`)
  await server.kill()
  return result

  /** Returns this many MB, one per second. */
  async function slowUpload(megabytes: number): Promise<boolean> {
    const boundary = 'slowly'
    async function* body() {
      yield Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="slow.bin"\r\n\r\n`)
      for (let at = 0; at < megabytes; at++) {
        yield Buffer.alloc(1_000_000, `${performance.now()}`)
        await sleep(1000)
      }
      yield Buffer.from(`\r\n--${boundary}--\r\n`)
    }
    const { status } = await caller.call('POST', '/api/documents/upload', {
      what: 'slow upload',
      body: Readable.toWeb(Readable.from(body())) as unknown as BodyInit,
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      duplex: 'half',
      timeoutMs: 600_000,
    } as object)
    ledger.acknowledged += Number(status === 201)
    return status === 201
  }
}
