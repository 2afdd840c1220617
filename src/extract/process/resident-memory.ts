/** Memory of processes. */
import { readdirSync, readFileSync } from 'node:fs'

/** Returns the resident bytes of a process and its descendants; 0 except on Linux. */
export function residentMemory(pid: number): number {
  const kilobytes = Number(/^VmRSS:\s+(\d+) kB/m.exec(orEmpty(() => readFileSync(`/proc/${pid}/status`, 'utf8')))?.[1] ?? 0)
  const threads = orEmpty(() => readdirSync(`/proc/${pid}/task`))
  const lists = Array.from(threads, (thread) => orEmpty(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')))
  const children = lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number))
  return children.reduce((sum, child) => sum + residentMemory(child), kilobytes * 1024)
}

/** Returns '' if `read` throws, as for processes and threads that have ended. */
function orEmpty<T>(read: () => T): T | '' {
  try {
    return read()
  } catch {
    return ''
  }
}
