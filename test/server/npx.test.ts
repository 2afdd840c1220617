/** `npx dms serve` in a checkout: npm, a shell and the server; the caller knows the pid of npm only. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { emptyPlace } from '../support/places.ts'
import { isStillThere, processTree, signal, type TreeProcess } from '../support/processes/process-tree.ts'
import { until } from '../support/processes/processes.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'

vi.setConfig({ testTimeout: 120_000 })

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A started command: its standard error so far, and all of its processes. */
async function start(program: string, args: readonly string[]) {
  const { databaseUrl, dataDir } = await emptyPlace()
  const place = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0B', DMS_WORKER_EMBEDDED: 'false' }
  const npm = { npm_config_cache: join(dataDir, 'npm'), npm_config_offline: 'true', npm_config_update_notifier: 'false' }
  const env = bareEnvironment({ ...place, ...npm, DMS_LOG_FORMAT: 'json' })
  const child: ChildProcess = spawn(program, args, { cwd: root, env, stdio: ['ignore', 'ignore', 'pipe'], detached: true })
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said += chunk
  })
  let tree: TreeProcess[] = []
  const isGone = () => !tree.some(isStillThere)
  onTestFinished(() => {
    for (const one of tree.filter(isStillThere)) signal(one.pid, 'SIGKILL')
  })
  const look = () => {
    const now = processTree(child.pid!)
    if (now.length > 0) tree = now
    return tree
  }
  return { child, said: () => said, look, isGone, server: () => look().at(-1)! }
}

async function startServer(program: string, args: readonly string[]) {
  const started = await start(program, args)
  await until(() => started.said().includes('listening on'), 60_000)
  expect(started.look().length).toBeGreaterThan(1)
  return started
}

const words = ['serve', '--port', '0', '--migrate']
const line = `${process.execPath} ${executable} ${words.join(' ')}`
const serve = ['dms', ...words]

describe('npx dms serve', () => {
  test.each(['SIGTERM', 'SIGKILL'] as const)('stops cleanly on %s to npx', async (name) => {
    const { child, said, isGone } = await startServer('npx', serve)
    child.kill(name)
    await until(isGone, 20_000)
    expect(said()).toContain('"msg":"stopping"')
  })

  test('stops if npx was killed before the server had started', async () => {
    const { child, said, look, isGone } = await start('npx', serve)
    await until(() => look().length > 2, 60_000)
    child.kill('SIGKILL')
    await until(isGone, 60_000)
    expect(said()).not.toContain('"level":"error"')
  })

  test('goes on after its terminal is closed, which ends npm', async () => {
    const { said, look, server, isGone } = await startServer('npx', serve)
    const [npm] = look()
    const { pid } = server()
    signal(-npm!.pid, 'SIGHUP')
    await until(() => !isStillThere(npm!), 60_000)
    await new Promise((resolve) => setTimeout(resolve, 3000))
    expect(isGone()).toBe(false)
    signal(pid, 'SIGTERM')
    await until(isGone, 20_000)
    expect(said()).toContain('"msg":"stopping"')
  })

  test('goes on in a session of its own', async () => {
    const { child, look, server, isGone } = await startServer('npx', ['-c', `setsid ${line}`])
    const { pid } = server()
    child.kill('SIGKILL')
    await until(() => !isStillThere(look()[0]!), 60_000)
    await new Promise((resolve) => setTimeout(resolve, 3000))
    expect(isGone()).toBe(false)
    signal(pid, 'SIGTERM')
    await until(isGone, 20_000)
  })
})

test('a server stops on SIGKILL to the launcher that an older Node needs', async () => {
  const { child, said, isGone } = await startServer('/bin/sh', ['-c', `DMS_LAUNCHER_PID=$$ ${line}; true`])
  child.kill('SIGKILL')
  await until(isGone, 20_000)
  expect(said()).toContain('"msg":"stopping"')
})
