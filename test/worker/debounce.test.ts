import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { debounce } from '../../src/worker/debounce.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a burst of calls runs once, when it is over', () => {
  const run = vi.fn()
  const call = debounce(run, { quietMs: 50, maxMs: 1000 })
  for (let time = 0; time < 5; time++) {
    call()
    vi.advanceTimersByTime(40)
  }
  expect(run).not.toHaveBeenCalled()
  vi.advanceTimersByTime(10)
  expect(run).toHaveBeenCalledOnce()
  vi.advanceTimersByTime(5000)
  expect(run).toHaveBeenCalledOnce()
})

test('a burst without end runs at each maximum time', () => {
  const run = vi.fn()
  const call = debounce(run, { quietMs: 50, maxMs: 1000 })
  for (let time = 0; time < 3000; time += 10) {
    call()
    vi.advanceTimersByTime(10)
  }
  expect(run.mock.calls.length).toBeGreaterThanOrEqual(2)
  expect(run.mock.calls.length).toBeLessThanOrEqual(3)
})
