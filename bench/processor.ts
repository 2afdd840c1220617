/** CPU time of processes. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Returns the processes of the embedded PostgreSQL. */
export async function database(dataDir: string): Promise<number[]> {
  const [main] = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n').map(Number)
  const found = [main as number]
  for (const name of await readdir('/proc')) if (/^\d+$/.test(name) && (await statOf(name))[1] === String(main)) found.push(Number(name))
  return found
}

/** Returns the CPU seconds of processes and of their finished children. */
export async function cpuOf(pids: readonly number[]): Promise<number> {
  let ticks = 0
  for (const pid of pids) for (const value of (await statOf(String(pid))).slice(11, 15)) ticks += Number(value)
  return ticks / 100
}

/** Returns the CPU seconds of the finished children of this process and of theirs. */
export async function cpuOfFinished(): Promise<number> {
  const [user, system] = (await statOf('self')).slice(13, 15)
  return (Number(user) + Number(system)) / 100
}

/** Returns the fields of /proc/PID/stat from the state on. */
async function statOf(pid: string): Promise<string[]> {
  return (await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')).replace(/^.*\) /, '').split(' ')
}
