/** Memory of processes. */
import { listDescendants, readProcFile } from './process-tree.ts'

/** Returns the resident bytes of a process and its descendants; 0 except on Linux. */
export function residentMemory(pid: number): number {
  const kilobytes = listDescendants(pid).map((each) => Number(/^VmRSS:\s+(\d+) kB/m.exec(readProcFile(`/proc/${each}/status`))?.[1] ?? 0))
  return kilobytes.reduce((sum, value) => sum + value * 1024, 0)
}
