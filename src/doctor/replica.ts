/** Checks the replica of database.read_url. */
import { setTimeout as sleep } from 'node:timers/promises'
import { loadPrimary, loadStandby } from '../db/replica.ts'
import { type Check, type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

const pollIntervalMs = 20

export const replicaChecks = (installation: LazyInstallation): Check[] => [
  { id: 'replica', about: 'lag of the replica of database.read_url', run: () => checkReplica(installation) },
]

async function checkReplica(installation: LazyInstallation): Promise<CheckResult> {
  const { read_url, max_lag } = installation.loaded.config.database
  if (read_url === '') throw new SkippedCheck('database.read_url is not set')
  const { reads, replica } = await installation.app()
  const primary = await loadPrimary(reads)
  const started = performance.now()
  for (;;) {
    const standby = await loadStandby(replica!.reads).catch((error: Error) => error)
    if (standby instanceof Error)
      return fail(`${standby.message}; reads go to the primary`, 'start the replica, or correct database.read_url')
    if (standby.wal === null) return warn('is no standby; reads go to the primary', 'set database.read_url to a standby')
    const waitedMs = performance.now() - started
    if (standby.wal >= primary.wal && standby.heartbeat >= primary.heartbeat) return ok(`at most ${Math.ceil(waitedMs)} ms behind`)
    if (waitedMs > max_lag)
      return warn(
        `${Math.max(0, primary.wal - standby.wal)} bytes behind after ${max_lag} ms; reads go to the primary`,
        'see pg_stat_replication on the primary, or raise database.max_lag',
      )
    await sleep(pollIntervalMs)
  }
}
