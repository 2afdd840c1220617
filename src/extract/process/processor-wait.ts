/** Time for which processes wait for a processor that others use. */
import { watchdogName } from './messages.ts'
import { listDescendants, listThreads, readProcFile } from './process-tree.ts'

interface ThreadTimes {
  readonly runNs: number
  readonly waitNs: number
}

/**
 * Returns a function that returns the milliseconds for which a process and its descendants have waited for a processor since this call. They never
 * decrease. Linux counts them in /proc/PID/task/TID/schedstat; elsewhere they are 0.
 */
export function openProcessorWait(pid: number): () => number {
  const startMs = performance.now()
  let last: ReadonlyMap<string, ThreadTimes> = readTimes(pid)
  let runMs = 0
  let threadWaitMs = 0
  let waitMs = 0
  return () => {
    const times = readTimes(pid)
    for (const [thread, { runNs, waitNs }] of times) {
      runMs += (runNs - (last.get(thread)?.runNs ?? 0)) / 1e6
      threadWaitMs += (waitNs - (last.get(thread)?.waitNs ?? 0)) / 1e6
    }
    last = times
    // While one thread runs, the wait of another one costs no time.
    waitMs = Math.max(waitMs, Math.min(threadWaitMs, performance.now() - startMs - runMs))
    return waitMs
  }
}

/** Returns the times of the threads of a process and its descendants, without those of watchdogs, by the folder of the thread. */
function readTimes(pid: number): Map<string, ThreadTimes> {
  const times = new Map<string, ThreadTimes>()
  for (const thread of listDescendants(pid).flatMap(listThreads)) {
    // Its own wait is no sign of work.
    if (readProcFile(`${thread}/comm`).trim() === watchdogName) continue
    const [runNs, waitNs] = readProcFile(`${thread}/schedstat`).split(' ').map(Number)
    if (runNs !== undefined && waitNs !== undefined) times.set(thread, { runNs, waitNs })
  }
  return times
}
