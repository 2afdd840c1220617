/** A process and its descendants, as Linux reports them; empty on other systems. */
import { readdirSync, readFileSync } from 'node:fs'

export interface TreeProcess {
  readonly pid: number
  /** identifies a process together with the pid, which may be reused */
  readonly startedAt: string
  readonly command: string
  /** resident memory in bytes */
  readonly resident: number
}

/** Returns the process itself first; empty if it has ended. */
export function processTree(pid: number): TreeProcess[] {
  const status = read(`/proc/${pid}/status`)
  if (status === '' || /^State:\s+[ZX]/m.test(status)) return []
  const one = {
    pid,
    startedAt: startOf(pid),
    command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim(),
    resident: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024,
  }
  return [one, ...childrenOf(pid).flatMap(processTree)]
}

/** Returns whether this process still runs. */
export const isStillThere = ({ pid, startedAt }: TreeProcess): boolean => startOf(pid) === startedAt && processTree(pid).length > 0

/** Sends a signal to a process. Ignores one that has ended since it was listed. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Returns the maximum memory of a process since its start, in bytes. */
export const peakMemory = (pid: number): number => Number(/^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024

function startOf(pid: number): string {
  const stat = read(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
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
