#!/usr/bin/env node
// Plain JavaScript for every Node since 18: dms runs on 24 or newer, and brings one along for machines whose own is older.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import module, { createRequire } from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const oldest = 24

if (Number(process.versions.node.split('.')[0]) >= oldest) await run()
else handOver(broughtNode())

async function run() {
  // Whoever reads our output may stop early (`dms documents list | head`): that is no failure.
  process.stdout.on('error', (error) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
  process.stderr.on('error', () => {})
  // Beside the packages that it is made from: whoever can write there can change the program itself. Where nobody may, it is done without.
  module.enableCompileCache?.(fileURLToPath(new URL('../node_modules/.cache/dms', import.meta.url)))
  const source = new URL('../commands/program.ts', import.meta.url)
  const { main } = await import(existsSync(source) ? source.href : new URL('../dist/commands/program.js', import.meta.url).href)
  process.exitCode = await main(process.argv.slice(2))
  // The work is over. Whatever still holds the process (a connection that does not close) gets two seconds, then it ends as decided.
  setTimeout(() => process.exit(), 2000).unref()
}

/** The path of the Node that was installed with dms, or null. */
function broughtNode() {
  try {
    const manifest = createRequire(import.meta.url).resolve(`node-${process.platform}-${process.arch}/package.json`)
    const path = join(dirname(manifest), 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
    return existsSync(path) ? path : null
  } catch {
    return null
  }
}

function handOver(node) {
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
  child = spawn(node, [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio })
  child.on('error', (error) => fail(`${node} cannot be started: ${error.message}`))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
    // Where the signal does not end us (SIGQUIT and others may be blocked), the shell's number for it does.
    setTimeout(() => process.exit(128 + constants.signals[signal]), 100)
  })
}

function fail(message) {
  process.stderr.write(
    `error: ${message}\n         fix: install Node ${oldest} or newer, or run npm install again without --omit=optional\n`,
  )
  process.exitCode = 78
}
