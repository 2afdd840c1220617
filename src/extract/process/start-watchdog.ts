/** Starts the thread that ends a process, and all that it started, from beside a main thread that may be stuck. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { WatchdogData } from './watchdog.ts'

/** Ends the group that this process leads. */
export const killGroup = (): boolean => process.kill(-process.pid, 'SIGKILL')

/** For a process that leads a group. The thread keeps nothing from ending by itself. */
export function startWatchdog(data: WatchdogData): void {
  const thread = new Worker(new URL(`./watchdog${extname(fileURLToPath(import.meta.url))}`, import.meta.url), { workerData: data })
  // Without the thread, nothing holds while the main thread is stuck.
  thread.on('error', killGroup)
  thread.unref()
}

/** The cell that holds until when work must be done; 0: no limit. */
export const deadlineCell = (): BigInt64Array => new BigInt64Array(new SharedArrayBuffer(8))
