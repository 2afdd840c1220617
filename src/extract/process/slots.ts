/** The slots of a reader. Callers wait by name and take turns, so that many works of one owner do not keep those of others waiting. */

export interface Slots {
  /** Waits for a slot. Callers with the same name are served in order. Rejects with the reason of `signal` when it aborts. */
  acquire(name: string, signal?: AbortSignal): Promise<void>
  release(): void
  /** Gives every waiting caller a slot. */
  releaseAll(): void
}

interface Waiting {
  readonly name: string
  readonly start: () => void
}

export function openSlots(count: number): Slots {
  const waiting: Waiting[] = []
  /** number of the last turn by name, since the last time that nobody waited */
  const lastTurns = new Map<string, number>()
  let turnCount = 0
  let busyCount = 0

  const lastTurnOf = ({ name }: Waiting): number => lastTurns.get(name) ?? 0

  /** Removes and returns the caller whose name has waited longest for a turn. */
  function takeNext(): Waiting | undefined {
    const next = waiting.reduce<Waiting | undefined>(
      (first, other) => (first === undefined || lastTurnOf(other) < lastTurnOf(first) ? other : first),
      undefined,
    )
    if (next === undefined) return undefined
    waiting.splice(waiting.indexOf(next), 1)
    if (waiting.length === 0) lastTurns.clear()
    else lastTurns.set(next.name, ++turnCount)
    return next
  }

  return {
    async acquire(name, signal) {
      if (busyCount < count) {
        busyCount++
        return
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const entry = { name, start: resolve }
      const onAbort = (): void => {
        const position = waiting.indexOf(entry)
        if (position < 0) return
        waiting.splice(position, 1)
        reject(signal?.reason)
      }
      waiting.push(entry)
      signal?.addEventListener('abort', onAbort, { once: true })
      await promise.finally(() => signal?.removeEventListener('abort', onAbort))
    },
    release() {
      const next = takeNext()
      if (next) next.start()
      else busyCount--
    },
    releaseAll() {
      for (const { start } of waiting.splice(0)) {
        busyCount++
        start()
      }
    },
  }
}
