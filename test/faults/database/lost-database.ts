/** F11, F12: PostgreSQL is killed under load, or all of its connections are cut. */
import { setTimeout as sleep } from 'node:timers/promises'
import { mixedLoad } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'

const env = { DMS_WORKER_LEASE: '5s', DMS_OCR_MAX_ATTEMPTS: '10' }

export const restartedDatabase: Fault = {
  id: 'F11',
  isLong: true,
  name: 'PostgreSQL stopped immediately every 3 s, under load',
  run: (context) =>
    underLoad(context, context.isShort ? 3 : 60, 'immediate stops', async (installation) => {
      await sleep(3000)
      // The signal of `pg_ctl stop -m immediate`. Only dms starts it again.
      await installation.query('select 1')
      process.kill(await installation.postmaster(), 'SIGQUIT')
    }),
}

export const cutConnections: Fault = {
  id: 'F12',
  name: 'pg_terminate_backend of all, under load',
  run: (context) =>
    underLoad(context, context.isShort ? 5 : 60, 'times all connections', async ({ query }) => {
      await sleep(1000)
      await query('select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null')
    }),
}

async function underLoad(
  { installation }: FaultContext,
  times: number,
  unit: string,
  strike: (installation: Installation, faultRun: FaultRun) => Promise<void>,
): Promise<FaultResult> {
  const server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const stop = new AbortController()
  const load = mixedLoad(faultRun.caller, faultRun.ledger, { signal: stop.signal })
  for (let time = 0; time < times; time++) await strike(installation, faultRun)
  await sleep(1000)
  stop.abort()
  await load
  await comesBack(faultRun)
  faultRun.expect(server.isRunning(), `the server ended: ${server.output.at(-1)}`)
  const result = await faultRun.finish(`${times} ${unit}`, { timeoutMs: 90_000 })
  await server.kill()
  return result
}

/** Waits until an upload is accepted again. The ledger records the outage. */
async function comesBack({ caller, expect }: FaultRun): Promise<void> {
  for (const end = performance.now() + 90_000; performance.now() < end; await sleep(500))
    if ((await caller.uploadText()).status === 201) return
  expect(false, 'no upload is taken 90 s after PostgreSQL was there again')
}
