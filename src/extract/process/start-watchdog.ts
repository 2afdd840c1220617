/** Starts the watchdog thread, which can end a process whose main thread is stuck. */
import { getPriority, setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { maxWallFactor } from '../../ports/document-reader.ts'
import { watchdogName } from './messages.ts'
import type { WatchdogData } from './watchdog.ts'

/** Kills the process group that this process leads. */
export const killOwnGroup = (): boolean => process.kill(-process.pid, 'SIGKILL')

/** Lowers the scheduling priority of this process to `niceness`. Keeps a lower one, which only root could raise. */
export function lowerPriority(niceness: number): void {
  if (getPriority() < niceness) setPriority(niceness)
}

/** Starts the watchdog of a process that leads a group. The thread does not keep the process from ending. */
export function startWatchdog(data: WatchdogData): void {
  const program = new URL(`./watchdog${extname(fileURLToPath(import.meta.url))}`, import.meta.url)
  const thread = new Worker(program, { workerData: data, name: watchdogName })
  // Without the thread, no limit applies while the main thread is stuck.
  thread.on('error', killOwnGroup)
  thread.unref()
}

/** Opens the limits of the current work, which the watchdog reads from `cell`. They are the last resort: the parent applies the time limit itself. */
export function openWorkLimits() {
  const cell = new BigInt64Array(new SharedArrayBuffer(16))
  return {
    cell,
    /** Sets the limits of a task. It may take twice `timeoutMs` of processor time, because garbage collection and compilation run in other threads. */
    set(timeoutMs: number): void {
      const { user, system } = process.cpuUsage()
      Atomics.store(cell, 1, BigInt(Math.ceil(user + system + 2000 * timeoutMs)))
      Atomics.store(cell, 0, process.hrtime.bigint() + BigInt(Math.ceil(timeoutMs * maxWallFactor)) * 1_000_000n)
    },
    clear(): void {
      Atomics.store(cell, 0, 0n)
    },
  }
}
