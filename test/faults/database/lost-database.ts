/** F11, F12: PostgreSQL is killed under load, or all of its connections are cut. */
import { setTimeout as sleep } from 'node:timers/promises'
import { mixedLoad } from '../caller.ts'
import { type Fault, type Given, openTrial, type Told, type Trial } from '../fault.ts'
import type { Place } from '../place.ts'

const env = { DMS_WORKER_LEASE: '5s', DMS_OCR_MAX_ATTEMPTS: '10' }

export const restartedDatabase: Fault = {
  id: 'F11',
  isLong: true,
  name: 'PostgreSQL stopped immediately every 3 s, under load',
  run: (given) =>
    underLoad(given, given.isShort ? 3 : 60, 'immediate stops', async (place) => {
      await sleep(3000)
      // What `pg_ctl stop -m immediate` sends. Nobody starts it again but dms.
      await place.query('select 1', 60_000)
      process.kill(await place.postmaster(), 'SIGQUIT')
    }),
}

export const cutConnections: Fault = {
  id: 'F12',
  name: 'pg_terminate_backend of all, under load',
  run: (given) =>
    underLoad(given, given.isShort ? 5 : 60, 'times all connections', async ({ query }) => {
      await sleep(1000)
      await query('select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null')
    }),
}

async function underLoad(
  { place }: Given,
  times: number,
  unit: string,
  strike: (place: Place, trial: Trial) => Promise<void>,
): Promise<Told> {
  const server = await place.start({ env })
  const trial = await openTrial(place, 30_000)
  const stop = new AbortController()
  const load = mixedLoad(trial.caller, trial.ledger, { signal: stop.signal })
  for (let time = 0; time < times; time++) await strike(place, trial)
  await sleep(1000)
  stop.abort()
  await load
  await comesBack(trial)
  trial.expect(server.isUp(), `the server ended: ${server.said.at(-1)}`)
  const told = await trial.conclude(`${times} ${unit}`, { patience: 90_000 })
  await server.kill()
  return told
}

/** Waits until an upload is accepted again; the ledger has the longest wait. */
async function comesBack({ caller, expect }: Trial): Promise<void> {
  for (let round = 0; round < 60; round++) {
    if ((await caller.uploadText()).status === 201) return
    await sleep(500)
  }
  expect(false, 'no upload is taken 30 s after PostgreSQL was there again')
}
