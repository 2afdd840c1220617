/** F29: clients disconnect during uploads and downloads. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

export const abortedClients: Fault = { id: 'F29', name: 'uploads and downloads broken off by their clients', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const times = isShort ? 40 : 2000
  const server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, expect } = faultRun
  const { id } = await caller.uploadBytes(5_000_000)
  const count = async () => (await installation.query<{ count: number }>('select count(*)::int as count from documents'))[0]?.count
  const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length
  for (let round = 0; round < 3; round++) await caller.list()
  const [documents, atRest] = [await count(), descriptors()]

  const boundary = 'gone'
  const part = (name: string) => `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="${name}"\r\n\r\n`
  const file = Buffer.concat([
    Buffer.from(part('a.bin')),
    randomBytes(1_000_000),
    Buffer.from(`\r\n${part('b.bin')}`),
    randomBytes(1_000_000),
  ])
  const head = `host: x\r\nauthorization: Bearer ${caller.token()}\r\n`
  const one = async (number: number) => {
    const socket = connect(installation.port, '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    if (number % 4 === 3) {
      socket.write(`GET /api/documents/${id}/download HTTP/1.1\r\n${head}\r\n`)
      await once(socket, 'data')
    } else {
      const path = number % 2 === 0 ? 'bulk-upload' : 'upload'
      socket.write(
        `POST /api/documents/${path} HTTP/1.1\r\n${head}content-type: multipart/form-data; boundary=${boundary}\r\ncontent-length: ${file.length + 20}\r\n\r\n`,
      )
      // At any offset, including the boundaries of parts.
      const offset = number % 8 === 0 ? 1_000_000 + part('a.bin').length + 2 : Math.floor(Math.random() * file.length)
      socket.write(file.subarray(0, offset))
      await sleep(Math.random() * 50)
    }
    if (number % 3 === 0) socket.resetAndDestroy()
    else socket.destroy()
  }
  for (let done = 0; done < times; done += 8) await Promise.all(Array.from({ length: 8 }, (_, lane) => one(done + lane)))

  // The pool closes a connection after ten seconds without a query.
  for (const end = performance.now() + 60_000; descriptors() > atRest + 2 && performance.now() < end; ) await sleep(100)
  expect(descriptors() <= atRest + 2, `I13 ${descriptors()} descriptors, ${atRest} before`)
  expect((await count()) === documents, `${await count()} documents, ${documents} before`)
  expect(server.isRunning(), 'the server ended')
  const result = await faultRun.finish(`${times} broken off`)
  await server.kill()
  return result
}
