import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { debounce } from '../../src/worker/debounce.ts'

const delay = { singleMs: 50, quietMs: 250, maxMs: 1000 }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a single call runs soon, a burst of calls once, when it is over', () => {
  const run = vi.fn()
  const burst = debounce(run, delay)
  burst.call()
  vi.advanceTimersByTime(50)
  expect(run).toHaveBeenCalledOnce()
  burst.call()
  for (let time = 0; time < 5; time++) {
    vi.advanceTimersByTime(time === 0 ? 40 : 200)
    expect(burst.isWaiting).toBe(true)
    burst.call()
  }
  expect(run).toHaveBeenCalledOnce()
  vi.advanceTimersByTime(250)
  expect(burst.isWaiting).toBe(false)
  expect(run).toHaveBeenCalledTimes(2)
  vi.advanceTimersByTime(5000)
  expect(run).toHaveBeenCalledTimes(2)
})

test('a burst without end runs at each maximum time', () => {
  const run = vi.fn()
  const burst = debounce(run, delay)
  for (let time = 0; time < 3000; time += 10) {
    burst.call()
    vi.advanceTimersByTime(10)
  }
  expect(run.mock.calls.length).toBeGreaterThanOrEqual(2)
  expect(run.mock.calls.length).toBeLessThanOrEqual(3)
})
