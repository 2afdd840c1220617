/** Starts the watchdog thread, which can end a process whose main thread is stuck. */
import { getPriority, setPriority } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { WatchdogData } from './watchdog.ts'

/** Kills the process group that this process leads. */
export const killGroup = (): boolean => process.kill(-process.pid, 'SIGKILL')

/** Lowers the scheduling priority of this process to `niceness`. Keeps a lower one, which only root could raise. */
export function lowerPriority(niceness: number): void {
  if (getPriority() < niceness) setPriority(niceness)
}

/** Starts the watchdog of a process that leads a group. The thread does not keep the process from ending. */
export function startWatchdog(data: WatchdogData): void {
  const thread = new Worker(new URL(`./watchdog${extname(fileURLToPath(import.meta.url))}`, import.meta.url), { workerData: data })
  // Without the thread, no limit applies while the main thread is stuck.
  thread.on('error', killGroup)
  thread.unref()
}

/** Returns a shared cell for the deadline of the current work; 0: no limit. */
export const deadlineCell = (): BigInt64Array => new BigInt64Array(new SharedArrayBuffer(8))
