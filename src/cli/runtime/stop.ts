/** Stopping on request: the first signal asks the command to begin nothing new, the second ends it at once. */
import type { Exit } from './exit.ts'

export interface StopWatcher {
  readonly signal: AbortSignal
  /** how a signal ends the command; null while none came */
  readonly exit: Exit | null
  /** what a second signal waits for, though not for long, before it ends everything */
  onForcedExit(work: () => Promise<void>): void
  /** listens no more */
  readonly end: () => void
}

/** A terminal and a parent process may both deliver the same Ctrl-C: a repeat within this time (ms) is no second one. */
const duplicateSignalMs = 300
/** Milliseconds that may go by between a second signal and the end. */
const forcedExitMs = 3000

const batchSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** A service reads its files again on SIGHUP. */
const serviceSignals = ['SIGINT', 'SIGTERM'] as const

/**
 * Listens until `end()`; `timeout` (ms, null for none; `elapsed` of it are over) aborts as well, with a TimeoutError as the reason. For a service the first signal is
 * the normal end, so `exit` stays null.
 */
export function watchStopSignals(timeout: number | null, say: (text: string) => void, isService = false, elapsed = 0): StopWatcher {
  const signals = isService ? serviceSignals : batchSignals
  const controller = new AbortController()
  let exit: Exit | null = null
  let isStopping = false
  let first = 0
  let last = null as (() => Promise<void>) | null
  const onSignal = (name: NodeJS.Signals): void => {
    if (isStopping && performance.now() - first < duplicateSignalMs) return
    if (isStopping) {
      // A third one finds nobody who listens.
      end()
      const work = last?.().catch(() => {})
      void Promise.race([work, new Promise((resolve) => setTimeout(resolve, forcedExitMs))]).then(() => process.kill(process.pid, name))
      return
    }
    first = performance.now()
    isStopping = true
    if (!isService) exit = name === 'SIGINT' ? 'INTERRUPTED' : 'TERMINATED'
    say('stopping; press Ctrl-C again to stop at once')
    controller.abort(new DOMException(`stopped by ${name}`, 'AbortError'))
  }
  const timer =
    timeout === null
      ? null
      : setTimeout(
          () => controller.abort(new DOMException(`--timeout of ${timeout / 1000} s has passed`, 'TimeoutError')),
          Math.max(0, timeout - elapsed),
        )
  const end = (): void => {
    if (timer) clearTimeout(timer)
    for (const name of signals) process.removeListener(name, onSignal)
  }
  for (const name of signals) process.on(name, onSignal)
  return {
    signal: controller.signal,
    get exit() {
      return exit
    },
    onForcedExit(work) {
      last = work
    },
    end,
  }
}
