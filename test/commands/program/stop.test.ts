import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { bareEnvironment, executable } from '../../support/processes/run.ts'

test('0 without messages if the reader closes the pipe', async () => {
  const child = spawn(process.execPath, [executable, 'help', 'environment'], { env: bareEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  expect(await new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })))).toEqual({ code: 0, stderr: '' })
})

test('a reader that is slower than 2 s gets all of the output', async () => {
  const line = [process.execPath, executable, 'config', 'show', 'oidc.client_id'].map((word) => `'${word}'`).join(' ')
  // More than a pipe holds.
  const env = bareEnvironment({ OIDC_CLIENT_ID: 'x'.repeat(120_000) })
  const child = spawn('sh', ['-c', `${line} | (sleep 4; wc -c)`], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  expect((await text(child.stdout)).trim()).toBe(String('oidc.client_id\t\n'.length + 120_000))
})

test.skipIf(!existsSync('/dev/full')).each([
  ['> /dev/full', 'ENOSPC: no space left on device'],
  ['>&-', 'EBADF: bad file descriptor'],
])('1 with one line if the output cannot be written: %s', async (redirection, reason) => {
  const child = spawn('sh', ['-c', `exec '${executable}' help environment ${redirection}`], {
    env: bareEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  expect(await new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })))).toEqual({
    code: 1,
    stderr: `error: standard output: ${reason}, write\n`,
  })
})

test('0 for a command that prints nothing and has no standard output', () => {
  const { status, stderr } = spawnSync('sh', ['-c', `exec '${executable}' config check -q >&-`], {
    env: bareEnvironment(),
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, ''])
})

/** Runs a program with a stop handler and signals it at these times (ms) after it is ready. */
async function signalled(at: readonly (readonly [ms: number, signal: NodeJS.Signals])[], { timeout = 'null', isService = false } = {}) {
  const stop = new URL('../../../src/cli/runtime/stop.ts', import.meta.url).href
  const program = `
import { watchStopSignals } from '${stop}'
const stop = watchStopSignals(${timeout}, (text) => console.log(text), ${isService})
stop.signal.addEventListener('abort', () => console.log(stop.signal.reason.name, stop.exit))
setTimeout(() => { stop.end(); console.log('done') }, 800)
console.log('ready')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: bareEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (lines.length === 0) for (const [ms, signal] of at) setTimeout(() => child.kill(signal), ms)
    lines.push(...text.trimEnd().split('\n'))
  })
  const end = await new Promise((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)))
  return { lines, end }
}

const stopping = 'stopping; press Ctrl-C again to stop at once'

test('the first signal requests a stop; an immediate repeat is ignored', async () => {
  const at = [
    [0, 'SIGINT'],
    [100, 'SIGINT'],
  ] as const
  expect(await signalled(at)).toEqual({ lines: ['ready', stopping, 'AbortError INTERRUPTED', 'done'], end: 0 })
})

test('the second signal ends the process', async () => {
  const at = [
    [0, 'SIGTERM'],
    [400, 'SIGTERM'],
  ] as const
  expect(await signalled(at)).toEqual({ lines: ['ready', stopping, 'AbortError TERMINATED'], end: 'SIGTERM' })
})

test('a service exits 0 after the first signal', async () => {
  expect(await signalled([[0, 'SIGTERM']], { isService: true })).toEqual({ lines: ['ready', stopping, 'AbortError null', 'done'], end: 0 })
})

test('--timeout requests a stop', async () => {
  expect(await signalled([], { timeout: '100' })).toEqual({ lines: ['ready', 'TimeoutError null', 'done'], end: 0 })
})
