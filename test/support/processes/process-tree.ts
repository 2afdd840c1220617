/** A process and all that it started, as the system tells (Linux; elsewhere nothing is known). */
import { readdirSync, readFileSync } from 'node:fs'

export interface TreeProcess {
  readonly pid: number
  /** with the pid it names a process for good: pids come again */
  readonly startedAt: string
  readonly command: string
  /** bytes in memory now */
  readonly resident: number
}

/** The process itself first; empty when it is gone. */
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

/** Whether this very process still runs. */
export const isStillThere = ({ pid, startedAt }: TreeProcess): boolean => startOf(pid) === startedAt && processTree(pid).length > 0

/** Sends a signal to a process that may have ended since it was listed: to that one there is nothing to say. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The most memory that a process has held since its start, in bytes. */
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
