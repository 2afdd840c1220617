/** Processes of this host. */

/** Returns whether a process of this host runs, even if this user may not signal it. */
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
