/** F25: WebSocket clients that never read, while others need their events soon. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { quantileOf } from './probe.ts'
import { joinLive } from './sockets.ts'

const slowCount = 5
/** maximum growth of the server's memory, in bytes */
const mostGrowth = 100_000_000
/** maximum milliseconds from the commit of an event until a reading client has received it; a machine may be slow */
const mostLatencyMs = { whole: 5000, short: 30_000 }

export const slowListeners: Fault = { id: 'F25', name: 'WebSocket clients that never read', isExclusive: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const events = isShort ? 10_000 : 100_000
  const server = await installation.start({ env: { DMS_WORKER_EMBEDDED: 'false', DMS_WS_CONNECTIONS_PER_USER: '10' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const [user] = await installation.query<{ id: string }>(`select id from users where username = 'admin'`)
  const latencies: number[] = []
  let received = 0
  const reader = await joinLive(installation.port, caller.token(), ['document_updated'], ({ data }) => {
    const changes = data?.changes
    if (!Array.isArray(changes)) return
    received++
    latencies.push(Date.now() - Number(changes[0]))
  })
  const slow = await Promise.all(Array.from({ length: slowCount }, () => joinLive(installation.port, caller.token(), ['document_updated'])))
  expect(reader !== null && slow.every((socket) => socket !== null), 'the sockets were refused')
  for (const socket of slow) socket?.tcp.pause()
  const before = resident(server.pid)
  let peak = before

  // Publishes events like a worker, each with a kilobyte of text.
  for (let sent = 0; sent < events; sent += 500) {
    await installation.query(`insert into events (type, user_id, data)
      select 'document_updated', '${user?.id}', jsonb_build_object('document_id', gen_random_uuid(), 'changes',
        jsonb_build_array((extract(epoch from clock_timestamp()) * 1000)::bigint::text, repeat('x', 1000)))
      from generate_series(1, 500); notify dms_live, 'event'`)
    await sleep(20)
    peak = Math.max(peak, resident(server.pid))
  }
  for (const end = performance.now() + 60_000; received < events && performance.now() < end; ) {
    await sleep(100)
    peak = Math.max(peak, resident(server.pid))
  }
  expect(received === events, `the client that reads has ${received} of ${events} events`)
  const p99 = quantileOf(latencies, 0.99)
  expect(p99 < (isShort ? mostLatencyMs.short : mostLatencyMs.whole), `the client that reads waits ${p99.toFixed(0)} ms for an event (p99)`)
  expect(peak - before < mostGrowth, `the server grew by ${((peak - before) / 1e6).toFixed(0)} MB`)
  notes.push(
    `${events} events of 1 kB: p99 ${p99.toFixed(0)} ms at the client that reads; server +${((peak - before) / 1e6).toFixed(0)} MB`,
  )
  // Reads the messages that the server sent before it closed the connection.
  for (const socket of slow) socket?.tcp.resume()
  for (const end = performance.now() + 60_000; slow.some((socket) => socket?.isOpen()) && performance.now() < end; ) await sleep(50)
  expect(
    !slow.some((socket) => socket?.isOpen()),
    `${slow.filter((socket) => socket?.isOpen()).length} clients that never read are still there`,
  )
  const codes = [...new Set(slow.map((socket) => socket?.closeCode() ?? 'none'))]
  notes.push(`those that never read were closed with ${codes.join(', ')}`)
  reader?.tcp.destroy()
  for (const socket of slow) socket?.tcp.destroy()
  await server.kill()
  const last = await installation.start()
  const result = await faultRun.finish(`${slowCount} clients, ${events} events`)
  await last.kill()
  return result
}

const resident = (pid: number): number => processTree(pid).reduce((sum, one) => sum + (one.pid === pid ? one.resident : 0), 0)
