/** Watches how far a replica of database.read_url is behind, while it is asked for. */
import type { App } from '../app.ts'
import { loadPrimary, loadStandby, type Position } from '../db/replica.ts'

export interface ReplicaLag {
  /** Returns whether the replica has all commits older than database.max_lag. Starts to watch it: a later call may return true. */
  isFresh(): boolean
  /** Returns whether the replica has all commits older than database.max_lag, as far as is known. Does not start to watch it. */
  wasFresh(): boolean
  close(): void
}

interface Observation extends Position {
  /** app.monotonicMs() before the query */
  at: number
}

/** Time without reads after which the replica is not watched. */
const idleMs = 10_000

/** Opens the observation of a replica. Sends no query before the first isFresh(). */
export function openReplicaLag(app: App, { reads, host }: App['replicas'][number]): ReplicaLag {
  const log = app.log.child({ replica: host })
  const maxLagMs = app.config.database.max_lag
  let positions: Observation[] = []
  /** The replica has all commits before this time. */
  let freshAt = Number.NEGATIVE_INFINITY
  let askedAt = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined
  let problem: string | null = null

  const wasFresh = () => app.monotonicMs() - freshAt <= maxLagMs

  const setProblem = (message: string | null) => {
    if (message !== null && message !== problem) log.warn({ reason: message }, 'no reads go to a replica')
    if (message === null && problem !== null) log.info('reads go to a replica')
    problem = message
  }

  const watchOnce = async () => {
    const at = app.monotonicMs()
    const primary = { at, ...(await loadPrimary(app.reads)) }
    if (positions.some(({ wal }) => wal > primary.wal)) positions = []
    positions = [...positions.filter((position) => position.at >= at - maxLagMs), primary]
    const standby = await loadStandby(reads)
    if (standby.wal === null) throw new Error('it is no standby')
    const reached = positions.findLast(({ wal, heartbeat }) => wal <= standby.wal! && heartbeat <= standby.heartbeat)
    if (reached) freshAt = reached.at
    setProblem(wasFresh() ? null : 'it is further behind than database.max_lag')
  }

  const watch = async () => {
    if (app.monotonicMs() - askedAt > idleMs) {
      timer = undefined
      positions = []
      return
    }
    await watchOnce().catch((error: Error) => {
      freshAt = Number.NEGATIVE_INFINITY
      positions = []
      setProblem(error.message)
    })
    if (timer) timer = setTimeout(watch, maxLagMs / 4).unref()
  }

  return {
    isFresh() {
      askedAt = app.monotonicMs()
      timer ??= setTimeout(watch).unref()
      return wasFresh()
    },
    wasFresh,
    close() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
