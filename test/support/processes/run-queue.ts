/** How busy the machine is with other programs. */
import { existsSync, readFileSync } from 'node:fs'

/**
 * Milliseconds that this thread was ready to run while other programs had the cores. The bound is meant for a machine with nothing else to do,
 * so that this is no delay of the server's; there it is 0. Not told of outside of Linux.
 */
export function waitedMs(): number {
  const path = '/proc/thread-self/schedstat'
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[1]) / 1e6 : 0
}
