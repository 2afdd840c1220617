import { setImmediate } from 'node:timers/promises'

/** Lets other requests run if its time slice is over. A long loop awaits it after each step. */
export type Yielder = () => Promise<void>

const sliceMs = 10

/** Opens a yielder. Each step of the loop should take much less than `sliceMs`. */
export function openYielder(): Yielder {
  let startedAt = performance.now()
  return async () => {
    if (performance.now() - startedAt < sliceMs) return
    await setImmediate()
    startedAt = performance.now()
  }
}

/** Runs steps, each of which should take much less than `sliceMs`, and returns their result. */
export async function runSteps<T>(steps: Generator<undefined, T>, pause: Yielder = openYielder()): Promise<T> {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    await pause()
  }
}
