/** Resource limits that the kernel enforces on a process and on those that it starts, whoever else is alive. */
import { existsSync } from 'node:fs'

const shell = '/bin/sh'
/** The limits are the first two arguments. One that is higher than the one in force is refused, and the lower one stays. */
const script = 'ulimit -t "$1" 2>/dev/null; [ "$2" = 0 ] || ulimit -d "$2" 2>/dev/null; shift 2; exec "$@"'

export interface ResourceLimits {
  /** processor time (RLIMIT_CPU): SIGKILL once it is used up */
  readonly cpuSeconds: number
  /** writable private memory (RLIMIT_DATA), resident or not: allocations fail above it */
  readonly dataBytes: number
}

/**
 * Returns the start of a command line that runs the rest of it within the limits; empty where there is no shell.
 * Only Linux counts RLIMIT_DATA in a useful way. RLIMIT_AS is never set: V8 and WebAssembly reserve 29 GB of addresses for a page of OCR.
 */
export function withLimits({ cpuSeconds, dataBytes }: ResourceLimits): readonly string[] {
  if (!existsSync(shell)) return []
  const dataKib = process.platform === 'linux' ? Math.ceil(dataBytes / 1024) : 0
  return [shell, '-c', script, 'limits', String(Math.ceil(cpuSeconds)), String(dataKib)]
}
