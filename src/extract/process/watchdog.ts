/**
 * A thread of each reader process and of the worker process of a server. Kills the process and all that it started when the parent is gone,
 * when the work takes too long, or when the process holds too much memory. It works while the main thread is stuck, and needs nothing of the parent.
 */
import { writeSync } from 'node:fs'
import { setInterval } from 'node:timers'
import { workerData } from 'node:worker_threads'
import { memoryNotice, timeoutNotice } from './messages.ts'

export interface WatchdogData {
  /** told by the parent: one that is gone before this process starts cannot be asked for any more */
  readonly parentPid: number
  /** resident bytes that this process may hold */
  readonly memoryBytes: number
  /** one element: when the work must be done, on the clock of process.hrtime; 0 without work */
  readonly deadlineNs: BigInt64Array
}

const intervalMs = 250
/** The parent ends work at its timeout. This is for a parent that cannot. */
const graceNs = 2_000_000_000n
const { parentPid, memoryBytes, deadlineNs } = workerData as WatchdogData

function check(): void {
  // Whoever takes over an orphan ran before its parent ended, so it never has the same pid: the time of start need not be compared.
  if (process.ppid !== parentPid) kill()
  if (process.memoryUsage.rss() > memoryBytes) kill(memoryNotice)
  const deadline = Atomics.load(deadlineNs, 0)
  if (deadline !== 0n && process.hrtime.bigint() > deadline + graceNs) kill(timeoutNotice)
}

function kill(notice = ''): void {
  try {
    if (notice !== '') writeSync(2, notice)
  } catch {
    // Nobody reads any more.
  }
  process.kill(-process.pid, 'SIGKILL')
}

check()
setInterval(check, intervalMs)
