/** Measures the time of a server's answers to other clients during a fault. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface Measured {
  /** milliseconds of each answer */
  times: readonly number[]
  /** requests without an answer */
  failed: number
  p99: number
  max: number
}

export interface Probe {
  /** Returns the figures since the last call, or since the start. */
  measure(): Promise<Measured>
  close(): Promise<void>
}

/** Returns the quantile `part` (0 to 1) of the numbers; 0 without numbers. */
export function quantileOf(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

/** Requests `url` 50 times a second from another process until it is closed. */
export function openProbe(url: string): Probe {
  const child = spawn(process.execPath, [fileURLToPath(new URL('probe-child.ts', import.meta.url)), url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)
  return {
    async measure() {
      const answer = once(lines, 'line')
      child.stdin.write('\n')
      const [line] = (await answer) as [string]
      const { times, failed } = JSON.parse(line) as { times: number[]; failed: number }
      return { times, failed, p99: quantileOf(times, 0.99), max: Math.max(0, ...times) }
    },
    async close() {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    },
  }
}
