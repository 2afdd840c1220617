/** Load of the machine by other programs, and its speed. */
import { existsSync, readFileSync } from 'node:fs'

/**
 * Returns the milliseconds that this thread waited for a core that other programs used. The bound is meant for an idle machine, so this is no delay
 * of the server. 0 on an idle machine and outside of Linux.
 */
export function waitedMs(): number {
  const path = '/proc/thread-self/schedstat'
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0
}

/** Processor time in milliseconds of the work of slowness() on the machine that time limits are meant for. */
const usualMs = 50

/** Returns how many times longer this machine computes than the one that time limits are meant for, at least 1. */
export function slowness(): number {
  const measured = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage()
    const numbers = Array.from({ length: 200_000 }, (_, index) => (index * 7919) % 200_003)
    JSON.parse(JSON.stringify(numbers.sort((one, other) => one - other)))
    const { user, system } = process.threadCpuUsage(before)
    return (user + system) / 1000
  })
  return Math.max(1, Math.min(...measured) / usualMs)
}
