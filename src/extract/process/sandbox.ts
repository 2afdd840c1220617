/** Sandbox of reader processes: an empty network from the system, limits from the kernel, and file permissions from Node. */
import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** PATH of the programs in the sandbox, independent of the server's own. */
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The call takes milliseconds. The limit is long because readers must be isolated on a busy machine too. */
const unshareTimeoutMs = 60_000

/** Memory that Node, its threads and WebAssembly map without touching it: 1.7 GB measured with OCR of a page of 35 megapixels. */
const mappedBytes = 3 * 1024 ** 3

/**
 * Returns the start of a command line that runs its rest without a network; null if this system does not permit it. Root needs no user namespace; in
 * one, it would lose access to files of other users.
 */
export function withoutNetwork(): readonly string[] | null {
  const command = ['unshare', ...(process.getuid?.() === 0 ? [] : ['--user', '--map-current-user']), '--net', '--']
  const { status } = spawnSync(command[0]!, [...command.slice(1), 'true'], {
    env: { PATH: path },
    stdio: 'ignore',
    timeout: unshareTimeoutMs,
  })
  return status === 0 ? command : null
}

/** Whether this Node denies network access to its own code, since version 25. Native code of packages is not covered. */
export const nodeKeepsFromNetwork = process.allowedNodeEnvironmentFlags.has('--allow-net')

/** File permissions of a sandbox. */
export interface Rights {
  /** the only folder that it can write to */
  readonly writable: string
  /** Folders that it can read in addition to the program's own. */
  readonly readable: readonly string[]
  /** permission to start programs, which Node cannot restrict any further */
  readonly startsPrograms: boolean
}

export interface SandboxedProgram {
  /** module; receives the pid of this process and `memoryBytes` as arguments */
  readonly program: string
  readonly rights: Rights
  /** limit of its heap; with `mappedBytes`, that of its writable memory */
  readonly memoryBytes: number
  /** processor time after which the kernel kills it */
  readonly cpuSeconds: number
  /** result of withoutNetwork() */
  readonly isolation: readonly string[] | null
}

/** Starts a Node program as leader of a process group, in its writable folder, with an IPC channel and an environment of its own. */
export function forkSandboxed({ program, rights, memoryBytes, cpuSeconds, isolation }: SandboxedProgram): ChildProcess {
  const cwd = rights.writable
  const limits = withLimits(cpuSeconds, memoryBytes + mappedBytes)
  const [execPath = '', ...wrapper] = [...(isolation ?? []), ...limits, process.execPath]
  return fork(program, [String(process.pid), String(memoryBytes)], {
    cwd,
    detached: true,
    serialization: 'advanced',
    execPath,
    execArgv: [...wrapper, `--max-old-space-size=${Math.ceil(memoryBytes / 1024 / 1024)}`, ...permissionFlags(rights)],
    env: { PATH: path, HOME: cwd, TMPDIR: cwd, LC_ALL: 'C.UTF-8', OMP_THREAD_LIMIT: '1', VIPS_CONCURRENCY: '1' },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
}

/** Returns flags for Node. Permitted code can follow a link out of a readable folder but cannot create one. Files are therefore passed as links. */
const permissionFlags = ({ writable, readable, startsPrograms }: Rights): string[] => [
  '--permission',
  // The warning is about addons (sharp) and worker threads, which dms needs.
  '--disable-warning=SecurityWarning',
  '--allow-addons',
  '--allow-worker',
  ...(startsPrograms ? ['--allow-child-process'] : []),
  ...[...programFolders(), writable, ...readable].map((folder) => `--allow-fs-read=${folder}`),
  `--allow-fs-write=${writable}`,
]

/** Returns the real folders of this program's code and of its packages. Never the package root as a whole, because data may lie in it. */
function programFolders(): string[] {
  const module = fileURLToPath(import.meta.url)
  let root = dirname(module)
  while (!existsSync(join(root, 'package.json')) && root !== dirname(root)) root = dirname(root)
  const topFolder = relative(root, module).split(sep)[0] ?? ''
  const packages = (createRequire(module).resolve.paths('any') ?? []).filter((folder) => existsSync(folder))
  return [join(root, topFolder), join(root, 'package.json'), ...new Set([...packages, ...packages.map((folder) => realpathSync(folder))])]
}

const shell = '/bin/sh'
/** Sets the limits in its first two arguments and runs the others. A limit above the inherited one is refused; the inherited limit stays. */
const limitScript = 'ulimit -t "$1" 2>/dev/null; [ "$2" = 0 ] || ulimit -d "$2" 2>/dev/null; shift 2; exec "$@"'

/**
 * Returns the start of a command line that runs its rest with RLIMIT_CPU and RLIMIT_DATA; empty without a shell.
 * Only Linux applies RLIMIT_DATA to all private memory. RLIMIT_AS is never set: V8 and WebAssembly reserve 29 GB of addresses for a page of OCR.
 */
function withLimits(cpuSeconds: number, dataBytes: number): readonly string[] {
  if (!existsSync(shell)) return []
  const dataKib = process.platform === 'linux' ? Math.ceil(dataBytes / 1024) : 0
  return [shell, '-c', limitScript, 'limits', String(Math.ceil(cpuSeconds)), String(dataKib)]
}
