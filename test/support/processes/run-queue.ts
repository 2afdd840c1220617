/** Load of the machine by other programs. */
import { existsSync, readFileSync } from 'node:fs'

/**
 * Returns the milliseconds that this thread waited for a core that other programs used. The bound is meant for an idle machine, so this is no delay
 * of the server. 0 on an idle machine and outside of Linux.
 */
export function waitedMs(): number {
  const path = '/proc/thread-self/schedstat'
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0
}
