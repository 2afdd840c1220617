/** Processes of this host. */
import { hash } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

/** Returns whether a process of this pid namespace runs, even if this user may not signal it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Kills the process group that a process leads. */
export function killGroup({ pid }: { readonly pid?: number | undefined }): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    // ESRCH: the whole group has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Returns the text of a file or link of /proc, '' on other systems. */
const readProc = (read: () => string): string => {
  try {
    return read().trim()
  } catch {
    return ''
  }
}

/**
 * Id of the host, its boot and the pid namespace, 12 hexadecimal digits. Processes with the same id can see each other's pids. Containers on one folder
 * may have the same host name and the same pids, but not the same id.
 */
export const pidNamespace: string = hash(
  'sha256',
  [
    hostname(),
    readProc(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    readProc(() => readlinkSync('/proc/self/ns/pid')),
  ].join(' '),
).slice(0, 12)

const startedAt = String(Math.floor(performance.timeOrigin))

/** Identity of this process. The start time distinguishes processes with the same pid, such as after a restart of a container. */
export const processIdentity: readonly string[] = [pidNamespace, String(process.pid), startedAt]

/** Returns whether a process of this pid namespace has ended; false for one of another namespace. */
export function hasEnded([namespace, pid, started]: readonly string[]): boolean {
  if (namespace !== pidNamespace) return false
  return Number(pid) === process.pid ? started !== startedAt : !isAlive(Number(pid))
}
