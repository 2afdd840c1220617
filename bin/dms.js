#!/bin/sh
':' /* The shell runs this comment: it becomes the Node that is installed with dms, else the one of the machine. No second process remains.
self=$(readlink -f "$0") root=${self%/bin/dms.js}
# Node would open /dev/null in place of a closed standard output: the result would be lost, with exit 0. This makes writes fail.
true 2>/dev/null 9>&1 || exec 1</dev/null
# The default of V8, 32 MiB, lets a server under load grow by 60 MB more (F27 in docs/reliability.md).
[ "$1" = serve ] && heap=--max-semi-space-size=16
for package in "$root"/node_modules/node-*-* "${root%/*}"/node-*-*; do
  # Alpine cannot run it: it needs glibc.
  [ -x "$package/bin/node" ] && [ ! -e /etc/alpine-release ] || continue
  # A minimal Debian lacks a library of it. The test costs a process, so it runs only where the library is not in its usual place.
  [ -e /lib/x86_64-linux-gnu/libatomic.so.1 ] || [ -e /lib/aarch64-linux-gnu/libatomic.so.1 ] || "$package/bin/node" --version > /dev/null || {
    echo "error: the Node that is installed with dms does not start; fix: apt install libatomic1" >&2
    exit 78
  }
  exec "$package/bin/node" $heap "$self" "$@"
done
exec node "$self" "$@"
*/
// Runs dms. Plain JavaScript for Node 18 or newer: `node bin/dms.js` with a Node older than `minMajor` starts the one that is installed with dms.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const minMajor = 24

if (Number(process.versions.node.split('.')[0]) >= minMajor) await run()
else runBundledNode()

async function run() {
  watchLauncher()
  // A reader of the output may stop early (`dms documents list | head`): this is not a failure.
  process.stdout.on('error', (error) => {
    // The exit code of a command that has ended stays.
    if (error.code === 'EPIPE') process.exit()
    process.stderr.write(`error: standard output: ${error.message}\n`)
    process.exit(1)
  })
  process.stderr.on('error', () => {})
  const root = fileURLToPath(new URL('../', import.meta.url))
  // The cache lies beside the packages: a user who can write there can change the program itself. A read-only folder disables the cache.
  module.enableCompileCache(`${root}node_modules/.cache/dms`)
  const { main } = await import((await hasBuild(root)) ? '../dist/program.js' : '../commands/program.ts')
  let hasTimedOut = false
  process.exitCode = await main(process.argv.slice(2), () => {
    hasTimedOut = true
  })
  // A reader that does not read must not prolong --timeout.
  if (hasTimedOut) setTimeout(() => process.exit(), 2000).unref()
  // Writes to a pipe are asynchronous: the reader may be slow.
  const pending = [process.stdout, process.stderr].filter(({ writableLength }) => writableLength > 0)
  await Promise.all(pending.map((stream) => new Promise((done) => stream.write('', () => done()))))
  // The work is over. Anything that still holds the process, such as a connection that does not close, gets two seconds.
  setTimeout(() => process.exit(), 2000).unref()
}

/** Stops this process if the launcher was killed and could not pass a signal on (SIGKILL). The parent is then another process. */
function watchLauncher() {
  const launcher = Number(process.env.DMS_LAUNCHER_PID)
  // Child processes have other parents.
  delete process.env.DMS_LAUNCHER_PID
  if (!launcher) return
  const timer = setInterval(() => {
    if (process.ppid === launcher) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, 500)
  timer.unref()
}

/** Returns whether dist/ can run. If the sources are present, dist/ must be built from exactly these. */
async function hasBuild(root) {
  if (!existsSync(`${root}src`)) return true
  const { isBuilt } = await import('./is-built.js')
  const isCommand = process.argv.slice(2).some((word) => !word.startsWith('-'))
  return isBuilt(root, isCommand)
}

/** Runs the whole command line with the Node that is installed with dms. */
function runBundledNode() {
  const node = bundledNodePath()
  if (node === null) {
    fail(
      `dms needs Node ${minMajor} or newer; this is ${process.version}, and the Node package of dms is not installed for ${process.platform}-${process.arch}`,
    )
    return
  }
  let child = null
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) process.on(signal, () => child?.kill(signal))
  // systemd passes an open socket as the first file after standard error.
  const stdio = process.env.LISTEN_PID === String(process.pid) ? [0, 1, 2, 3] : 'inherit'
  const heapOptions = process.argv[2] === 'serve' ? ['--max-semi-space-size=16'] : []
  child = spawn(node, [...heapOptions, ...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio,
    // SIGKILL ends this process alone: the child watches this pid and stops.
    env: { ...process.env, DMS_LAUNCHER_PID: String(process.pid) },
  })
  child.on('error', (error) => fail(`${node} cannot be started: ${error.message}`))
  child.on('exit', (code, signal) => {
    // The dynamic linker ends with 127 where a library is missing.
    if (code === 127) return fail(`${node} cannot be started`, 'apt install libatomic1')
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // A blocked signal, such as SIGQUIT, does not end this process: exit with the shell's status for it.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
  })
}

/** Returns the path of the Node that is installed with dms, null if there is none for this platform. */
function bundledNodePath() {
  try {
    const manifest = module.createRequire(import.meta.url).resolve(`node-${process.platform}-${process.arch}/package.json`)
    const path = join(dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
    return existsSync(path) ? path : null
  } catch {
    return null
  }
}

function fail(message, fix = `install Node ${minMajor} or newer, or run npm install again without --omit=optional`) {
  process.stderr.write(`error: ${message}\n         fix: ${fix}\n`)
  process.exitCode = 78
}
