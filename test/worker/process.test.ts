/** The worker process of `dms serve`: started, supervised, restarted, and stopped with its server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { getPriority } from 'node:os'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { isStillThere, processTree, signal, type TreeProcess } from '../support/processes/process-tree.ts'
import { until } from '../support/processes/processes.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'

vi.setConfig({ testTimeout: 120_000 })

type Line = Record<string, unknown>

/** Starts a server on a database and a data folder of a test, which is another client of both. */
async function serve(env: Record<string, string> = {}) {
  const dms = await startApp()
  const variables = { DATABASE_URL: dms.databaseUrl, DMS_STORAGE_MIN_FREE: '0', DMS_LOG_FORMAT: 'json', ...env }
  const child = spawn(process.execPath, [executable, 'serve', '--port', '0', '--data-dir', dms.dataDir], {
    env: bareEnvironment(variables),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const all = new Map<number, TreeProcess>()
  const tree = () => {
    const now = processTree(child.pid!)
    for (const one of now) all.set(one.pid, one)
    return now
  }
  onTestFinished(async () => {
    tree()
    for (const { pid } of [...all.values()].filter(isStillThere)) signal(pid, 'SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  const logged = (msg: string): Line[] =>
    said
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Line)
      .filter((line) => line.msg === msg)
  const workers = () => tree().filter(({ command }) => command.includes('worker --supervised'))
  await until(() => said.includes('listening on'), 60_000)
  const url = /listening on (\S+)/.exec(said)?.[1] ?? ''
  /** Resolves after so many workers in total have started. Returns the process of the last one. */
  const working = async (times = 1): Promise<TreeProcess> => {
    await until(() => logged('working').length === times && workers().length === 1, 60_000)
    return workers()[0]!
  }
  const isDone = (id: string) =>
    expect.poll(() => dms.asAda.documents.get(id).then(({ status }) => status), { timeout: 60_000 }).toBe('completed')
  return { ...dms, url, child, exit, tree, logged, workers, working, isDone, all }
}

test('jobs run in a process of their own, which ends with its server on SIGTERM', async () => {
  const { child, exit, working, isDone, asAda, all, tree, logged } = await serve()
  const worker = await working()
  expect(worker.pid).not.toBe(child.pid)
  expect(getPriority(worker.pid)).toBe(Math.max(5, getPriority(child.pid)))
  await isDone((await upload(asAda, 'a.txt', 'words')).id)
  tree()
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
  expect([...all.values()].filter(isStillThere)).toEqual([])
  expect(logged('the worker process ended; starting it again')).toEqual([])
})

test('a killed worker process is restarted and runs the jobs', async () => {
  const { working, logged, isDone, asAda, child, exit } = await serve()
  const first = await working()
  signal(first.pid, 'SIGKILL')
  await until(() => !isStillThere(first), 60_000)
  const { id } = await upload(asAda, 'a.txt', 'words')
  const second = await working(2)
  expect(second.pid).not.toBe(first.pid)
  expect(logged('the worker process ended; starting it again')).toMatchObject([{ level: 'error', pid: first.pid, signal: 'SIGKILL' }])
  await isDone(id)
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
})

test('a worker process that hangs is killed, logged and restarted; the server answers meanwhile', async () => {
  const { url, working, logged, isDone, asAda } = await serve({ DMS_WORKER_HANG_TIMEOUT: '8s' })
  const first = await working()
  signal(first.pid, 'SIGSTOP')
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  const { id } = await upload(asAda, 'a.txt', 'words')
  await until(() => !isStillThere(first), 60_000)
  // The log may arrive after the process has ended.
  await expect
    .poll(() => logged('the worker process hangs: killing it'), { timeout: 10_000 })
    .toMatchObject([{ level: 'error', pid: first.pid, jobs: [] }])
  await working(2)
  await isDone(id)
})

test('SIGKILL to the server ends its worker process and all readers at once', async () => {
  const { child, exit, working, isDone, asAda, all, tree } = await serve()
  await working()
  await isDone((await upload(asAda, 'a.txt', 'words')).id)
  expect(tree().length).toBeGreaterThan(2)
  child.kill('SIGKILL')
  await exit
  await until(() => ![...all.values()].some(isStillThere), 60_000)
})

test('a second SIGTERM ends the worker process too', async () => {
  const { child, exit, working, all, tree } = await serve({ DMS_DRAIN_DELAY: '20s' })
  await working()
  tree()
  child.kill('SIGTERM')
  await new Promise((resolve) => setTimeout(resolve, 2000))
  child.kill('SIGTERM')
  expect(await exit).toEqual([null, 'SIGTERM'])
  await until(() => ![...all.values()].some(isStillThere), 60_000)
})

test('worker.in_server_process: one process does both', async () => {
  const { workers, isDone, asAda } = await serve({ DMS_WORKER_IN_SERVER_PROCESS: 'true' })
  await isDone((await upload(asAda, 'a.txt', 'words')).id)
  expect(workers()).toEqual([])
})
