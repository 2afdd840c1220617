/**
 * How long does an event take to 1,000 WebSockets, what do they cost the server, and does a client that stops reading delay others?
 *
 *   node bench/ws.ts [--sockets 1000] [--rate 100] [--seconds 15]
 *
 * Another process writes the events to a real `dms serve`, as a worker does. The time is from the beginning of the event's transaction until a client
 * has its message, by one clock. Each event goes to the five sockets of its user and to five of an admin.
 */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { WebSocket } from 'undici'
import { openTokens } from '../src/auth/jwt.ts'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { openDatabase } from '../src/db/pool.ts'
import { publish } from '../src/events.ts'
import { openLog } from '../src/log/log.ts'
import { processTree } from '../test/support/processes/process-tree.ts'
import { startServed } from '../test/support/servers/served.ts'
import { quantile } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: {
    sockets: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '100' },
    seconds: { type: 'string', default: '15' },
  },
})
const [total, rate, seconds] = [Number(values.sockets), Number(values.rate), Number(values.seconds)]
const perUser = 5
/** characters of the events that fill up a client that stopped reading */
const large = 100_000

interface User {
  id: string
  token: string
}

interface Phase {
  name: string
  delays: number[]
  /** events sent */
  sent: number
  seconds: number
  resident: number
}

const served = await startServed({ env: { DMS_LOG_ACCESS: 'false' } })
const log = openLog({ level: 'error', format: 'json' })
const embedded = await joinEmbedded({ dataDir: served.dataDir, log })
const database = openDatabase({ address: embedded.connection, poolMax: 4, connectTimeoutMs: 5000, statementTimeoutMs: 0, log })
const resident = () => processTree(served.pid)[0]?.resident ?? 0
const sockets: WebSocket[] = []
let received = 0
let delays: number[] = []

try {
  console.log(machine())
  const before = resident()
  const users = await makeUsers()
  for (const { token } of users) await Promise.all(Array.from({ length: perUser }, () => openSocket(token)))
  await sleep(1000)
  const open = resident()
  const receivers = users.slice(1)
  const phases = [await phase('all read', receivers), await stoppedReader(users)]
  show(before, open, phases)
} finally {
  for (const socket of sockets) socket.close()
  await database.close()
  await embedded.release()
  await served.stop()
  await served.remove()
}

/** The admin, and as many users as the sockets need. */
async function makeUsers(): Promise<User[]> {
  const tokens = openTokens(Buffer.from((await readFile(join(served.dataDir, 'jwt_secret'), 'utf8')).trim()))
  const rows = Array.from({ length: Math.ceil(total / perUser) - 1 }, (_, number) => ({
    username: `user${number}`,
    email: `user${number}@example.org`,
  }))
  await served.client.call('POST', '/api/users/import', rows)
  const users = await database.db.selectFrom('users').select(['id', 'token_version']).orderBy('role').orderBy('id').execute()
  const iat = Math.floor(Date.now() / 1000)
  return Promise.all(
    users.map(async ({ id, token_version }) => ({
      id,
      token: await tokens.sign({ sub: id, jti: randomUUID(), iat, exp: iat + 3600, ver: token_version }),
    })),
  )
}

async function openSocket(token: string): Promise<void> {
  const socket = new WebSocket(`${served.url.replace('http', 'ws')}/ws`)
  sockets.push(socket)
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => {
      socket.send(JSON.stringify({ type: 'auth', token }))
      socket.send(JSON.stringify({ type: 'subscribe', events: ['document_created'] }))
    })
    socket.addEventListener('error', () => reject(new Error('a WebSocket was refused')))
    socket.addEventListener('message', ({ data }) => {
      const now = performance.now()
      const message = JSON.parse(String(data)) as { type: string; title?: string; code?: string }
      if (message.type === 'error') reject(new Error(message.code))
      if (message.type === 'subscribed') resolve()
      const sentAt = Number(message.title)
      if (!(sentAt > 0)) return
      received++
      delays.push(now - sentAt)
    })
  })
}

function send(userId: string, title: string): Promise<void> {
  const data = { document_id: randomUUID(), title, source: null }
  return database.db.transaction().execute((trx) => publish(trx, 'document_created', userId, data))
}

/** Sends events for the users in turn at a fixed rate, without waiting for answers. */
async function phase(name: string, users: readonly User[]): Promise<Phase> {
  delays = []
  received = 0
  const start = performance.now()
  const sending: Promise<void>[] = []
  for (let number = 0; number < rate * seconds; number++) {
    await sleep(Math.max(0, start + (number * 1000) / rate - performance.now()))
    sending.push(send(users[number % users.length]?.id ?? '', String(performance.now())))
  }
  await Promise.all(sending)
  const took = (performance.now() - start) / 1000
  const expected = sending.length * perUser * 2
  for (let wait = 0; wait < 100 && received < expected; wait++) await sleep(50)
  if (received !== expected) throw new Error(`${expected} messages were expected, ${received} came`)
  return { name, delays, sent: sending.length, seconds: took, resident: resident() }
}

/** Measures again while a client that does not read gets further events of 2 MB a second, which only it has subscribed to. */
async function stoppedReader([stopped, ...users]: readonly User[]): Promise<Phase> {
  const { hostname, port } = new URL(served.url)
  sockets.splice(perUser, perUser).map((socket) => socket.close())
  await sleep(500)
  const socket = connect(Number(port), hostname)
  const frame = (text: string) =>
    Buffer.concat([Buffer.from([0x81, 0xfe, text.length >> 8, text.length & 255, 0, 0, 0, 0]), Buffer.from(text)])
  socket.write(`GET /ws HTTP/1.1\r\nhost: ${hostname}:${port}\r\nconnection: upgrade\r\nupgrade: websocket\r\n`)
  socket.write('sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')
  await new Promise((resolve) => socket.once('data', resolve))
  socket.write(frame(JSON.stringify({ type: 'auth', token: stopped?.token })))
  socket.write(frame(JSON.stringify({ type: 'subscribe', events: ['sync_progress'] }).padEnd(126)))
  await sleep(500)
  socket.pause()
  let isOver = false
  const flood = (async () => {
    const data = { source_id: randomUUID(), processed: 0, total: 1, current_file: 'x'.repeat(large) }
    while (!isOver) {
      await database.db.transaction().execute((trx) => publish(trx, 'sync_progress', stopped?.id ?? '', data))
      await sleep(50)
    }
  })()
  const measured = await phase('one does not read', users)
  isOver = true
  await flood
  const places = await database.db
    .selectFrom('live_places')
    .select('id')
    .where('user_id', '=', stopped?.id ?? '')
    .execute()
  console.log(places.length === 0 ? 'the reader that stopped was closed' : 'the reader that stopped was NOT closed')
  socket.destroy()
  return measured
}

function show(before: number, open: number, phases: readonly Phase[]): void {
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0)
  const table = new Table({ head: [`${total} sockets`, 'events/s', 'messages/s', 'p50, ms', 'p99, ms', 'most, ms', 'server, MB'] })
  table.push(['no sockets', '', '', '', '', '', megabytes(before)], ['all open', '', '', '', '', '', megabytes(open)])
  for (const { name, delays, sent, seconds, resident } of phases) {
    const at = (part: number) => quantile(delays, part).toFixed(1)
    report({ measure: `event to ${total} sockets, ${name}`, unit: 'ms', value: Number(at(0.5)), p95: Number(at(0.95)), better: 'lower' })
    table.push([name, (sent / seconds).toFixed(0), (delays.length / seconds).toFixed(0), at(0.5), at(0.99), at(1), megabytes(resident)])
  }
  console.log(table.toString())
  report({ measure: 'memory of a socket', unit: 'kB', value: (open - before) / total / 1000, better: 'lower' })
  console.log(`a socket costs the server ${((open - before) / total / 1000).toFixed(0)} kB`)
}

function machine(): string {
  return `${availableParallelism()} cores, ${cpus()[0]?.model.trim()}, ${(totalmem() / 1e9).toFixed(0)} GB, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}`
}
