/** What a reader process can reach: the system gives it an empty network, and Node lets its code read the program, the models and its own folder. */
import { spawnSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Programs are looked for there, whatever the server's own PATH says. */
export const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * The start of a command line that runs the rest of it without any network; null where this system does not let us.
 * Root needs no user namespace, and would lose its right to other users' files in one.
 */
export function withoutNetwork(): readonly string[] | null {
  const command = ['unshare', ...(process.getuid?.() === 0 ? [] : ['--user', '--map-current-user']), '--net', '--']
  const { status } = spawnSync(command[0]!, [...command.slice(1), 'true'], { env: { PATH: path }, stdio: 'ignore', timeout: 5000 })
  return status === 0 ? command : null
}

/** Whether this Node itself keeps a process from the network: since 25. Code of packages that is not JavaScript does not ask it. */
export const nodeKeepsFromNetwork = process.allowedNodeEnvironmentFlags.has('--allow-net')

export interface Rights {
  /** the only folder that it may write to */
  readonly writable: string
  /** folders that it may read besides that one and the program's */
  readonly readable: readonly string[]
  /** whether it may start programs, which Node then knows nothing of */
  readonly startsPrograms: boolean
}

/** Flags for Node. It follows a link out of what may be read, and lets nobody make one: that is how a file is handed over. */
export const permissions = ({ writable, readable, startsPrograms }: Rights): string[] => [
  '--permission',
  // Of addons (sharp) and threads, which are ours.
  '--disable-warning=SecurityWarning',
  '--allow-addons',
  '--allow-worker',
  ...(startsPrograms ? ['--allow-child-process'] : []),
  ...[...programFolders(), writable, ...readable].map((place) => `--allow-fs-read=${place}`),
  `--allow-fs-write=${writable}`,
]

/** Where this program's code really is: the folder at the top of the package, and the packages that it may come from. Never the package whole: data may lie in it. */
function programFolders(): string[] {
  const own = fileURLToPath(import.meta.url)
  let top = dirname(own)
  while (!existsSync(join(top, 'package.json')) && top !== dirname(top)) top = dirname(top)
  const first = relative(top, own).split(sep)[0] ?? ''
  const packages = (createRequire(own).resolve.paths('any') ?? []).filter((place) => existsSync(place))
  return [join(top, first), join(top, 'package.json'), ...new Set([...packages, ...packages.map((place) => realpathSync(place))])]
}

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
