/** Checks the replicas of database.read_url. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '../db/pool.ts'
import { loadPrimary, loadStandby } from '../db/replica.ts'
import { type CheckResult, fail, ok, SkippedCheck, warn } from './doctor.ts'
import type { LazyInstallation } from './installation.ts'

const pollIntervalMs = 20

/** Returns the worst result of all replicas. */
export async function checkReplica(installation: LazyInstallation): Promise<CheckResult> {
  const { read_url, max_lag } = installation.loaded.config.database
  if (read_url === '') throw new SkippedCheck('database.read_url is not set')
  const { reads, replicas } = await installation.app()
  const results = await Promise.all(
    replicas.map(async (replica) => {
      const result = await checkOne(reads, replica.reads, max_lag)
      return replicas.length === 1 ? result : { ...result, message: `${replica.host}: ${result.message}` }
    }),
  )
  const severities: CheckResult['status'][] = ['skip', 'ok', 'warn', 'fail']
  return results.reduce((worst, result) => (severities.indexOf(result.status) > severities.indexOf(worst.status) ? result : worst))
}

async function checkOne(reads: Db, replicaReads: Db, maxLagMs: number): Promise<CheckResult> {
  const primary = await loadPrimary(reads)
  const started = performance.now()
  for (;;) {
    const standby = await loadStandby(replicaReads).catch((error: Error) => error)
    if (standby instanceof Error)
      return fail(`${standby.message}; reads go to the primary`, 'start the replica, or correct database.read_url')
    if (standby.wal === null) return warn('is no standby; reads go to the primary', 'set database.read_url to a standby')
    const waitedMs = performance.now() - started
    if (standby.wal >= primary.wal && standby.heartbeat >= primary.heartbeat) return ok(`at most ${Math.ceil(waitedMs)} ms behind`)
    if (waitedMs > maxLagMs)
      return warn(
        `${Math.max(0, primary.wal - standby.wal)} bytes behind after ${maxLagMs} ms; reads go to the primary`,
        'see pg_stat_replication on the primary, or raise database.max_lag',
      )
    await sleep(pollIntervalMs)
  }
}
