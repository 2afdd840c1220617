/** What the system knows of processes (Linux). */
import { readdirSync, readFileSync } from 'node:fs'

/** Ids of the living children of a process; zombies count, because nobody may leave any. */
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

/** Its program and arguments, separated by spaces; empty when it is gone. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    return ''
  }
}

/** Whether a process runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return false
  }
}

/** Waits until something is true; answers how long it took in milliseconds, or throws after `most`. */
export async function until(isTrue: () => boolean, most: number): Promise<number> {
  const start = performance.now()
  while (!isTrue()) {
    if (performance.now() - start > most) throw new Error(`not true after ${most} ms`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return performance.now() - start
}
