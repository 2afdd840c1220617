/** Stop signals: after the first a command starts nothing new, the second ends it. */
import { waitAtMost } from '../../concurrency.ts'
import type { Exit } from './exit.ts'

export interface StopWatcher {
  readonly signal: AbortSignal
  /** exit by signal; null before the first */
  readonly exit: Exit | null
  /** registers work that the second signal waits for, up to `forcedExitMs` */
  onForcedExit(work: () => Promise<void>): void
  /** removes the listeners */
  readonly end: () => void
}

/** A terminal and a parent process may both deliver the same Ctrl-C: signals within this time count once. */
const duplicateSignalMs = 300
/** Limit of the work before a forced exit. */
const forcedExitMs = 3000

const batchSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** SIGHUP makes a service reload its files. */
const serviceSignals = ['SIGINT', 'SIGTERM'] as const

/**
 * Listens until `end()`. `timeoutMs` (null: no limit) minus `elapsedMs` also aborts, with a TimeoutError as the reason. For a service
 * the first signal is the normal end, so `exit` stays null.
 */
export function watchStopSignals(timeoutMs: number | null, print: (text: string) => void, isService = false, elapsedMs = 0): StopWatcher {
  const signals = isService ? serviceSignals : batchSignals
  const controller = new AbortController()
  let exit: Exit | null = null
  let isStopping = false
  let firstSignalMs = 0
  let forcedExitWork = null as (() => Promise<void>) | null
  const onSignal = (name: NodeJS.Signals): void => {
    if (isStopping && performance.now() - firstSignalMs < duplicateSignalMs) return
    if (isStopping) {
      // Without listeners a third signal ends the process.
      end()
      const work = forcedExitWork?.().catch(() => {}) ?? Promise.resolve()
      void waitAtMost(forcedExitMs, work).then(() => process.kill(process.pid, name))
      return
    }
    firstSignalMs = performance.now()
    isStopping = true
    if (!isService) exit = name === 'SIGINT' ? 'INTERRUPTED' : 'TERMINATED'
    print('stopping; press Ctrl-C again to stop at once')
    controller.abort(new DOMException(`stopped by ${name}`, 'AbortError'))
  }
  const timer =
    timeoutMs === null
      ? null
      : setTimeout(
          () => controller.abort(new DOMException(`--timeout of ${timeoutMs / 1000} s has passed`, 'TimeoutError')),
          Math.max(0, timeoutMs - elapsedMs),
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
      forcedExitWork = work
    },
    end,
  }
}

/** Ignores the AbortError of a service that a signal stopped before it ran, which is a normal end. Throws other errors. */
export function ignoreStop(error: unknown, { reason }: AbortSignal): void {
  const isStop = [error, reason].every((each) => (each as Error | undefined)?.name === 'AbortError')
  if (!isStop) throw error
}
