/** How much memory a process and those it started hold. */
import { readdirSync, readFileSync } from 'node:fs'

/** Bytes resident in the tree of processes below `pid`; 0 where the system does not tell (only Linux does). */
export function residentMemory(pid: number): number {
  const own = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1]
  return Number(own ?? 0) * 1024 + childrenOf(pid).reduce((sum, child) => sum + residentMemory(child), 0)
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      read(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
