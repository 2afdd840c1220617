/** Delays work until a burst of calls is over. */

interface Delay {
  /** Time without a call after which the burst is over. */
  quietMs: number
  /** Maximum time after the first call of a burst. */
  maxMs: number
}

/** Returns a function that calls `run` after a burst of its calls. It keeps no process alive. */
export function debounce(run: () => void, { quietMs, maxMs }: Delay): () => void {
  let timer: NodeJS.Timeout | null = null
  let startedAt = 0
  return () => {
    const now = performance.now()
    if (timer === null) startedAt = now
    else clearTimeout(timer)
    const fire = () => {
      timer = null
      run()
    }
    timer = setTimeout(fire, Math.max(0, Math.min(quietMs, startedAt + maxMs - now))).unref()
  }
}
