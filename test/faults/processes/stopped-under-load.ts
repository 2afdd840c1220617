/** F31: SIGTERM under load, once and twice. */
import { setTimeout as sleep } from 'node:timers/promises'
import { mixedLoad } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'

/** maximum seconds until the server ends after the second SIGTERM: less than its shutdown timeout */
const most = 25

export const stoppedUnderLoad: Fault = { id: 'F31', name: 'SIGTERM under load, once and twice', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const rounds = isShort ? 1 : 10
  let server = await installation.start()
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  for (let round = 0; round < rounds; round++) {
    for (const times of [1, 2]) {
      const stop = new AbortController()
      const load = mixedLoad(caller, ledger, { signal: stop.signal })
      await sleep(1500)
      const startedAt = performance.now()
      process.kill(server.pid, 'SIGTERM')
      // The second time, a long upload is in progress.
      if (times === 2) {
        await sleep(20)
        if (server.isRunning()) process.kill(server.pid, 'SIGTERM')
      }
      const code = await server.ended
      const seconds = (performance.now() - startedAt) / 1000
      stop.abort()
      await load
      if (times === 1) expect(code === 0, `after one SIGTERM it ended with ${code}`)
      else {
        expect([0, 143, 'SIGTERM'].includes(code as string), `after two it ended with ${code}`)
        expect(seconds <= most, `after two it took ${seconds.toFixed(1)} s`)
      }
      notes.push(`${times} SIGTERM: ended with ${code} after ${seconds.toFixed(1)} s`)
      server = await installation.start()
    }
  }
  const result = await faultRun.finish(`${rounds * 2} stops`)
  await server.kill()
  return { ...result, notes: [...new Set(result.notes)] }
}
