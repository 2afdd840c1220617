/** F31: SIGTERM under load, once and twice. */
import { setTimeout as sleep } from 'node:timers/promises'
import { mixedLoad } from '../caller.ts'
import { type Fault, type Given, openTrial, type Told } from '../fault.ts'

/** seconds within which the second SIGTERM must have ended it */
const most = 10

export const stoppedUnderLoad: Fault = { id: 'F31', name: 'SIGTERM under load, once and twice', run }

async function run({ place, isShort }: Given): Promise<Told> {
  const rounds = isShort ? 1 : 10
  let server = await place.start()
  const trial = await openTrial(place, 60_000)
  const { caller, ledger, expect, notes } = trial
  for (let round = 0; round < rounds; round++) {
    for (const times of [1, 2]) {
      const stop = new AbortController()
      const load = mixedLoad(caller, ledger, { signal: stop.signal })
      await sleep(1500)
      const begun = performance.now()
      process.kill(server.pid, 'SIGTERM')
      // The second time while somebody is in the middle of an upload that takes long.
      if (times === 2) {
        await sleep(20)
        if (server.isUp()) process.kill(server.pid, 'SIGTERM')
      }
      const code = await server.ended
      const seconds = (performance.now() - begun) / 1000
      stop.abort()
      await load
      if (times === 1) expect(code === 0, `after one SIGTERM it ended with ${code}`)
      else {
        expect([0, 143, 'SIGTERM'].includes(code as string), `after two it ended with ${code}`)
        expect(seconds <= most, `after two it took ${seconds.toFixed(1)} s`)
      }
      notes.push(`${times} SIGTERM: ended with ${code} after ${seconds.toFixed(1)} s`)
      server = await place.start()
    }
  }
  const told = await trial.conclude(`${rounds * 2} stops`)
  await server.kill()
  return { ...told, notes: [...new Set(told.notes)] }
}
