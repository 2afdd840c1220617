/** Limits of the work of a reader process, as its parent enforces them. */
import type { ChildProcess } from 'node:child_process'
import { maxWallFactor, ReadFailure } from '../../ports/document-reader.ts'
import type { WaitMessage } from './messages.ts'
import { openProcessorWait } from './processor-wait.ts'
import { residentMemory } from './resident-memory.ts'

const pollMs = 500
/** Minimum further wait for a processor that is reported to the process, as a share of the limit. Each message costs a wait of its own. */
const minToldShare = 0.05

export interface WorkLimits {
  /** without the time for which the process waits for a processor */
  readonly timeoutMs: number
  /** resident memory of the process and its children together */
  readonly memoryBytes: number
}

/**
 * Calls `kill` with a ReadFailure when the work of a process exceeds a limit. Tells the process how long it has waited for a processor. Returns a
 * function that ends both.
 */
export function enforceLimits(
  child: ChildProcess,
  { timeoutMs, memoryBytes }: WorkLimits,
  kill: (reason: ReadFailure) => void,
): () => void {
  const pid = child.pid ?? 0
  const startMs = performance.now()
  const measureWait = openProcessorWait(pid)
  const getWaitMs = (): number => Math.min(measureWait(), timeoutMs * (maxWallFactor - 1))
  let toldMs = 0
  let timer = setTimeout(checkTime, timeoutMs)
  function checkTime(): void {
    const leftMs = startMs + timeoutMs + getWaitMs() - performance.now()
    if (leftMs > 0) timer = setTimeout(checkTime, leftMs)
    else kill(new ReadFailure('READ_TIMEOUT'))
  }
  const poll = setInterval(() => {
    if (residentMemory(pid) > memoryBytes) kill(new ReadFailure('READ_OUT_OF_MEMORY'))
    const waitMs = getWaitMs()
    if (waitMs < toldMs + timeoutMs * minToldShare) return
    toldMs = waitMs
    child.send({ waitMs } satisfies WaitMessage, () => {})
  }, pollMs)
  return () => {
    clearTimeout(timer)
    clearInterval(poll)
  }
}
