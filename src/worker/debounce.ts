/** Delays work until a burst of calls is over. */

interface Delay {
  /** Time after a single call. */
  singleMs: number
  /** Time without a call after which a burst of several calls is over. */
  quietMs: number
  /** Maximum time after the first call of a burst. */
  maxMs: number
}

interface Debounced {
  /** Begins or prolongs a burst. The timer keeps no process alive. */
  call(): void
  /** Whether a burst continues. */
  readonly isWaiting: boolean
}

/** Runs `run` once after each burst of calls. */
export function debounce(run: () => void, { singleMs, quietMs, maxMs }: Delay): Debounced {
  let timer: NodeJS.Timeout | null = null
  let startedAt = 0
  const fire = () => {
    timer = null
    run()
  }
  return {
    call() {
      const now = performance.now()
      const delayMs = timer === null ? singleMs : quietMs
      if (timer === null) startedAt = now
      else clearTimeout(timer)
      timer = setTimeout(fire, Math.max(0, Math.min(delayMs, startedAt + maxMs - now))).unref()
    },
    get isWaiting() {
      return timer !== null
    },
  }
}
