import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { bareEnvironment, executable, run } from '../../support/processes/run.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dms-version-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const isCheckout = existsSync(new URL('../../../.git/HEAD', import.meta.url))
const expected = (JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }).version

test('version prints the version of package.json and of Node', async () => {
  const { code, stdout } = await run(['version', '--json'])
  expect({ code, ...JSON.parse(stdout) }).toEqual({
    code: 0,
    client: {
      version: expected,
      commit: isCheckout ? expect.stringMatching(/^[0-9a-f]{40,64}$/) : null,
      node: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
    },
    server: null,
    database: null,
  })
  expect((await run(['--version'])).stdout).toBe(`${expected}\n`)
})

test('--help loads no heavy modules', async () => {
  const list = join(folder, 'loaded')
  const hook = join(folder, 'hook.mjs')
  writeFileSync(
    hook,
    `import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + '\\n'); return next(url, context) } })`,
  )
  expect((await run(['--help'], { env: { NODE_OPTIONS: `--import=${hook}` } })).code).toBe(0)
  const loaded = readFileSync(list, 'utf8')
  // The build bundles it; changed sources run unbundled.
  const packages = new Set(loaded.match(/(?<=\/node_modules\/)(@[^/]+\/)?[^/\n]+/g))
  packages.delete('commander')
  expect([...packages]).toEqual([])
  expect(loaded).toMatch(/\/(dist\/program\.js|commands\/program\.ts)\n/)
})

/** Path of a Node that is too old for dms, if there is one. */
const oldNode = ['/usr/local/bin/node', '/usr/bin/node', '/usr/bin/nodejs'].find(
  (path) => existsSync(path) && Number(execFileSync(path, ['-p', 'process.versions.node.split(".")[0]'], { encoding: 'utf8' })) < 24,
)
if (!oldNode) process.stderr.write('skipped: this machine has no Node older than 24 to hand over from\n')

const hasBundledNode = existsSync(join(executable, '../../node_modules', `node-${process.platform}-${process.arch}`, 'bin/node'))
if (!hasBundledNode) process.stderr.write('skipped: no Node is installed with dms\n')

test.skipIf(!hasBundledNode)('the executable, also as a link, becomes the bundled Node: one process', async () => {
  const link = join(folder, 'dms')
  symlinkSync(executable, link)
  const fifo = join(folder, 'unwritten')
  execFileSync('mkfifo', [fifo])
  const child = spawn(link, ['config', 'check', '--file', fifo], { env: bareEnvironment(), stdio: 'ignore' })
  onTestFinished(() => void child.kill('SIGKILL'))
  const programOf = () => readlinkSync(`/proc/${child.pid}/exe`)
  while (!programOf().endsWith('/bin/node')) await sleep(20)
  expect(programOf()).toContain(`node-${process.platform}-${process.arch}`)
  expect(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()).toBe('')
})

const stateOf = (pid: number): string =>
  existsSync(`/proc/${pid}/status`) ? (/^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '') : 'gone'

test.skipIf(!oldNode)('a command stops on SIGKILL to the launcher that an older Node needs', async () => {
  // Reads standard input, which stays open.
  const child = spawn(oldNode!, [executable, 'backup', 'verify', '-'], { env: bareEnvironment(), stdio: ['pipe', 'ignore', 'ignore'] })
  const children = () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()
  while (children() === '') await sleep(20)
  const inner = Number(children())
  await sleep(1000)
  expect(stateOf(inner)).toMatch(/[RSD]/)
  child.kill('SIGKILL')
  while (!['gone', 'Z'].includes(stateOf(inner))) await sleep(50)
})

test.skipIf(!oldNode)('an older Node starts the bundled Node', async () => {
  const { code, stdout } = await run(['version', '--json'], { node: oldNode })
  expect(code).toBe(0)
  expect(Number.parseInt(JSON.parse(stdout).client.node, 10)).toBeGreaterThanOrEqual(24)
  expect(await run(['config', 'show', 'nonsense'], { node: oldNode })).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^error: /),
  })
})

test.skipIf(!oldNode)('the bundled Node receives signals, and its exit status is returned', async () => {
  const fifo = join(folder, 'never-written')
  execFileSync('mkfifo', [fifo])
  const child = spawn(oldNode!, [executable, 'config', 'check', '--file', fifo], { env: bareEnvironment(), stdio: 'ignore' })
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })))
  while (!readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim()) await sleep(20)
  const [inner] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')
  child.kill('SIGTERM')
  expect(await ended).toEqual({ code: null, signal: 'SIGTERM' })
  expect(existsSync(`/proc/${inner}`)).toBe(false)
})

test.skipIf(!oldNode)('78 without a bundled Node', async () => {
  const copy = join(folder, 'alone')
  mkdirSync(join(copy, 'bin'), { recursive: true })
  cpSync(executable, join(copy, 'bin/dms.js'))
  writeFileSync(join(copy, 'package.json'), '{"type":"module"}')
  const child = spawn(oldNode!, [join(copy, 'bin/dms.js'), 'version'], { env: bareEnvironment() })
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect({ code, stderr }).toEqual({ code: 78, stderr: expect.stringMatching(/^error: dms needs Node 24 or newer; .*\n +fix: /) })
})
