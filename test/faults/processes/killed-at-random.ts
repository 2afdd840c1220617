/** F03: the server, its worker, or another worker is killed repeatedly under mixed load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree, signal } from '../../support/processes/process-tree.ts'
import { mixedLoad } from '../caller.ts'
import { type Fault, type Given, openTrial, type Told } from '../fault.ts'
import type { Running } from '../place.ts'

/** of the server and one more worker, with short leases, so that dead workers are noticed soon */
const env = { DMS_WORKER_LEASE: '5s', DMS_OCR_MAX_ATTEMPTS: '10' }

export const killedAtRandom: Fault = { id: 'F03', isLong: true, name: 'kill -9 of server and worker at random, 16 clients', run }

async function run({ place, isShort }: Given): Promise<Told> {
  const seconds = isShort ? 20 : 600
  const running: Record<'server' | 'worker', Running> = {
    server: await place.start({ env }),
    worker: await place.startWorker({ env }),
  }
  const trial = await openTrial(place, 30_000)
  const stop = new AbortController()
  const load = mixedLoad(trial.caller, trial.ledger, { signal: stop.signal, lanes: 16 })
  let kills = 0
  for (const end = performance.now() + seconds * 1000; performance.now() < end; kills++) {
    await sleep(isShort ? 1000 + Math.random() * 2000 : 2000 + Math.random() * 8000)
    // The worker of the server is started again by it.
    const own = processTree(running.server.pid).find(({ command }) => command.includes('--supervised'))
    if (own && Math.random() < 0.2) {
      signal(own.pid, 'SIGKILL')
      continue
    }
    const whom = Math.random() < 0.7 ? 'server' : 'worker'
    await running[whom].kill()
    running[whom] = await (whom === 'server' ? place.start({ env }) : place.startWorker({ env }))
  }
  stop.abort()
  await load
  const told = await trial.conclude(`${kills} kills in ${seconds} s`, { patience: 120_000 })
  for (const one of Object.values(running)) await one.kill()
  return told
}
