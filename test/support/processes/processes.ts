/** Processes as Linux reports them. */
import { readdirSync, readFileSync } from 'node:fs'

/** Returns the pids of the living children of a process, including zombies, because none may be left. */
export const childrenOf = (pid: number): number[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid ? [Number(name)] : []
    } catch {
      return []
    }
  })

/** Returns its program and arguments, separated by spaces; empty if it has ended. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    return ''
  }
}

/** Returns whether a process runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return false
  }
}

/** Waits until something is true. Returns the milliseconds that it took; throws after `most`. */
export async function until(isTrue: () => boolean, most: number): Promise<number> {
  const start = performance.now()
  while (!isTrue()) {
    if (performance.now() - start > most) throw new Error(`not true after ${most} ms`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return performance.now() - start
}
