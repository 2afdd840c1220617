/** F13: PostgreSQL hangs with open connections. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree, signal } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

/** timeouts of dms for a statement and for a connection, in seconds */
const timeouts = { statement: 3, connect: 2 }
/** maximum seconds of an answer beyond the slowest answer without a query: the waits for the pool and for the statement, and a margin */
const most = 12
/** maximum growth of the server's memory, in bytes */
const growth = 150e6

export const frozenDatabase: Fault = { id: 'F13', name: 'PostgreSQL frozen (SIGSTOP)', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const seconds = isShort ? 14 : 30
  const server = await installation.start({
    env: {
      DMS_DATABASE_STATEMENT_TIMEOUT: `${timeouts.statement}s`,
      DMS_DATABASE_CONNECT_TIMEOUT: `${timeouts.connect}s`,
      DMS_WORKER_LEASE: '5s',
    },
  })
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  for (let count = 0; count < 5; count++) await caller.uploadText()
  const resident = () => processTree(server.pid)[0]?.resident ?? 0
  const before = resident()
  const frozen = processTree(await installation.postmaster()).map(({ pid }) => pid)
  const requests: Promise<{ status: number; seconds: number }>[] = []
  /** answers of /healthz, which needs no database: they show how busy the machine is */
  const healthy: Promise<{ status: number; seconds: number }>[] = []
  let peak = before
  try {
    for (const pid of frozen) signal(pid, 'SIGSTOP')
    const [id = ''] = ledger.uploads.keys()
    for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
      requests.push(caller.list(), caller.search(), caller.download(id), caller.uploadText())
      healthy.push(caller.call('GET', '/healthz', { what: 'healthz' }))
      peak = Math.max(peak, resident())
      await sleep(300)
    }
    const ready = await fetch(new URL('/readyz', installation.url))
    expect(ready.status === 503, `/readyz says ${ready.status}`)
  } finally {
    for (const pid of frozen) signal(pid, 'SIGCONT')
  }
  const answers = await Promise.all([...requests, ...healthy])
  const slowest = Math.max(...answers.map((answer) => answer.seconds))
  const slowestHealthy = Math.max(...(await Promise.all(healthy)).map((answer) => answer.seconds))
  expect(slowestHealthy < most, `/healthz took ${slowestHealthy.toFixed(1)} s`)
  expect(slowest <= most + slowestHealthy, `an answer took ${slowest.toFixed(1)} s of at most ${(most + slowestHealthy).toFixed(1)}`)
  expect(
    answers.every(({ status }) => [200, 201, 503].includes(status)),
    `answers: ${[...ledger.answers].map((one) => one.join(': ')).join(', ')}`,
  )
  expect(peak - before < growth, `the server grew by ${((peak - before) / 1e6).toFixed(0)} MB`)
  let status = 0
  for (const end = performance.now() + 60_000; status !== 201 && performance.now() < end; await sleep(500))
    status = (await caller.uploadText()).status
  expect(status === 201, `an upload a minute after it is answered with ${status}`)
  notes.push(`slowest answer ${slowest.toFixed(1)} s, memory +${Math.max(0, (peak - before) / 1e6).toFixed(0)} MB`)
  const result = await faultRun.finish(`${seconds} s, ${answers.length} requests`, { timeoutMs: 90_000 })
  await server.kill()
  return result
}
