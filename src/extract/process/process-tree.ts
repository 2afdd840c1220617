/** Processes and their threads, from /proc of Linux. Elsewhere the functions find nothing. */
import { readdirSync, readFileSync } from 'node:fs'

/** Returns a process and its descendants. */
export function listDescendants(pid: number): number[] {
  const lists = listThreads(pid).map((thread) => readProcFile(`${thread}/children`))
  return [pid, ...lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number)).flatMap(listDescendants)]
}

/** Returns the folders of the threads of a process. */
export const listThreads = (pid: number): string[] =>
  Array.from(
    orEmpty(() => readdirSync(`/proc/${pid}/task`)),
    (thread) => `/proc/${pid}/task/${thread}`,
  )

/** Returns the content of a file in /proc; '' for processes and threads that have ended. */
export const readProcFile = (path: string): string => orEmpty(() => readFileSync(path, 'utf8'))

function orEmpty<T>(read: () => T): T | '' {
  try {
    return read()
  } catch {
    return ''
  }
}
