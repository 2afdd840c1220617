/** F03: the server, its worker, or another worker is killed repeatedly under mixed load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree, signal } from '../../support/processes/process-tree.ts'
import { mixedLoad } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import type { RunningProcess } from '../installation.ts'

/** variables of the server and one more worker: short leases, to detect dead workers soon */
const env = { DMS_WORKER_LEASE: '5s', DMS_OCR_MAX_ATTEMPTS: '10' }

export const killedAtRandom: Fault = { id: 'F03', isLong: true, name: 'kill -9 of server and worker at random, 16 clients', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const seconds = isShort ? 20 : 600
  const running: Record<'server' | 'worker', RunningProcess> = {
    server: await installation.start({ env }),
    worker: await installation.startWorker({ env }),
  }
  const faultRun = await openFaultRun(installation)
  const stop = new AbortController()
  const load = mixedLoad(faultRun.caller, faultRun.ledger, { signal: stop.signal, concurrency: 16 })
  let kills = 0
  for (const end = performance.now() + seconds * 1000; performance.now() < end; kills++) {
    await sleep(isShort ? 1000 + Math.random() * 2000 : 2000 + Math.random() * 8000)
    // The server restarts its worker.
    const own = processTree(running.server.pid).find(({ command }) => command.includes('--supervised'))
    if (own && Math.random() < 0.2) {
      signal(own.pid, 'SIGKILL')
      continue
    }
    const whom = Math.random() < 0.7 ? 'server' : 'worker'
    await running[whom].kill()
    running[whom] = await (whom === 'server' ? installation.start({ env }) : installation.startWorker({ env }))
  }
  stop.abort()
  await load
  const result = await faultRun.finish(`${kills} kills in ${seconds} s`, { timeoutMs: 120_000 })
  for (const one of Object.values(running)) await one.kill()
  return result
}
