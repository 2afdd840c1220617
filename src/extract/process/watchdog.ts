/**
 * Watchdog thread of reader processes and of the worker process of a server. Kills the process group when the parent has ended, when the work
 * takes too long, or when the process holds too much memory. Works while the main thread is stuck.
 */
import { writeSync } from 'node:fs'
import { setInterval } from 'node:timers'
import { workerData } from 'node:worker_threads'
import { memoryNotice, timeoutNotice } from './messages.ts'

export interface WatchdogData {
  /** passed by the parent, because the parent may end before this process can read it */
  readonly parentPid: number
  /** resident bytes that this process may hold */
  readonly memoryBytes: number
  /** deadline of the work on the clock of process.hrtime, 0: no work; processor time of this process in µs at which the work ends; null: no works */
  readonly workLimits: BigInt64Array | null
}

const intervalMs = 250
/** Delay after the deadline, at which the parent itself kills the process. */
const graceNs = 2_000_000_000n
const { parentPid, memoryBytes, workLimits } = workerData as WatchdogData

function check(): void {
  // The process that adopts an orphan ran before the parent ended, so it cannot have its pid.
  if (process.ppid !== parentPid) kill()
  if (process.memoryUsage.rss() > memoryBytes) kill(memoryNotice)
  if (workLimits && hasPassed(workLimits)) kill(timeoutNotice)
}

function hasPassed(limits: BigInt64Array): boolean {
  const deadlineNs = Atomics.load(limits, 0)
  if (deadlineNs === 0n) return false
  const { user, system } = process.cpuUsage()
  return process.hrtime.bigint() > deadlineNs + graceNs || user + system > Number(Atomics.load(limits, 1))
}

function kill(notice = ''): void {
  try {
    if (notice !== '') writeSync(2, notice)
  } catch {
    // The parent no longer reads.
  }
  process.kill(-process.pid, 'SIGKILL')
}

check()
setInterval(check, intervalMs)
