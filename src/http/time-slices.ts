/** Long loops that let other requests pass. */
import { setImmediate } from 'node:timers/promises'

/** Awaited between two steps of a long loop. */
export type Yielder = () => void | Promise<void>

/** Makes a function that gives the event loop back once `sliceMs` have passed since it last did; each step should take far less. */
export function openYielder(sliceMs = 10): Yielder {
  let startedAt = performance.now()
  return () => {
    if (performance.now() - startedAt < sliceMs) return
    return setImmediate().then(() => {
      startedAt = performance.now()
    })
  }
}
