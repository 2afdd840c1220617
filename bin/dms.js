#!/usr/bin/env node
// Plain JavaScript for every Node since 18: dms runs on 24 or newer, and brings one along for machines whose own is older.
// Parts of Node are loaded where they are used, and not by `import`, which makes the new ones load much more than that.
const oldest = 24

if (Number(process.versions.node.split('.')[0]) >= oldest) await run()
else await handOver()

async function run() {
  const module = process.getBuiltinModule('node:module')
  const { fileURLToPath } = process.getBuiltinModule('node:url')
  // Whoever reads our output may stop early (`dms documents list | head`): that is no failure.
  process.stdout.on('error', (error) => {
    if (error.code === 'EPIPE') process.exit(0)
    process.stderr.write(`error: standard output: ${error.message}\n`)
    process.exit(1)
  })
  process.stderr.on('error', () => {})
  const root = fileURLToPath(new URL('../', import.meta.url))
  // Beside the packages that it is made from: whoever can write there can change the program itself. Where nobody may, it is done without.
  module.enableCompileCache(`${root}node_modules/.cache/dms`)
  const { main } = await import((await hasBuild(root)) ? '../dist/program.js' : '../commands/program.ts')
  process.exitCode = await main(process.argv.slice(2))
  // The work is over. Whatever still holds the process (a connection that does not close) gets two seconds, then it ends as decided.
  setTimeout(() => process.exit(), 2000).unref()
}

/** Where there are sources, a build counts only while it is of exactly these. */
async function hasBuild(root) {
  if (!process.getBuiltinModule('node:fs').existsSync(`${root}src`)) return true
  const { isBuilt } = await import('./is-built.js')
  const isCommand = process.argv.slice(2).some((word) => !word.startsWith('-'))
  return isBuilt(root, isCommand)
}

/** Runs the whole line with the Node that was installed with dms. */
async function handOver() {
  const { spawn } = await import('node:child_process')
  const { constants } = await import('node:os')
  const { fileURLToPath } = await import('node:url')
  const node = await broughtNode()
  if (node === null) {
    fail(
      `dms needs Node ${oldest} or newer; this is ${process.version}, and the one that dms brings along is not installed for ${process.platform}-${process.arch}`,
    )
    return
  }
  let child = null
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) process.on(signal, () => child?.kill(signal))
  // A socket that systemd has opened for us is its first file after these three.
  const stdio = process.env.LISTEN_PID === String(process.pid) ? [0, 1, 2, 3] : 'inherit'
  // The default of V8, 32 MiB, lets a server under load grow by 60 MB more (F27 in docs/reliability.md).
  const heapOptions = process.argv[2] === 'serve' ? ['--max-semi-space-size=16'] : []
  child = spawn(node, [...heapOptions, ...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio,
    // SIGKILL ends this process alone: the other stops once it is gone.
    env: { ...process.env, DMS_LAUNCHER_PID: String(process.pid) },
  })
  child.on('error', (error) => fail(`${node} cannot be started: ${error.message}`))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // Where the signal does not end us (SIGQUIT and others may be blocked), the shell's number for it does.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
  })
}

/** The path of that Node, or null. */
async function broughtNode() {
  const { existsSync } = await import('node:fs')
  const { createRequire } = await import('node:module')
  const { dirname, join } = await import('node:path')
  try {
    const manifest = createRequire(import.meta.url).resolve(`node-${process.platform}-${process.arch}/package.json`)
    const path = join(dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
    return existsSync(path) ? path : null
  } catch {
    return null
  }
}

function fail(message) {
  process.stderr.write(
    `error: ${message}\n         fix: install Node ${oldest} or newer, or run npm install again without --omit=optional\n`,
  )
  process.exitCode = 78
}
