/** Runs `dms` as users do: the executable, in a child process. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { environment } from '../../../src/config/environment.ts'
import { findProgram } from '../../../src/config/find-program.ts'

export interface RunOptions {
  /** added to an environment with only PATH and an empty home */
  env?: Record<string, string>
  /** standard input; default: empty */
  input?: string
  /** text that is typed after a certain output; then standard input stays open */
  reply?: { to: string; type: string }
  /** milliseconds after which it is killed; default 120,000 */
  timeout?: number
  /** the Node that runs it; default: that of this test */
  node?: string
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export const executable = fileURLToPath(new URL('../../../bin/dms.js', import.meta.url))

/** Variables of a command under test, besides those of the test itself. */
export const bareEnvironment = (env: Record<string, string> = {}): Record<string, string> => ({
  PATH: environment().PATH ?? '',
  HOME: home(),
  ...env,
})

let ownHome: string | undefined

/** Returns the home of the test run; outside of Vitest a folder that goes away with this process. */
function home(): string {
  const { DMS_TEST_HOME } = environment()
  if (DMS_TEST_HOME) return DMS_TEST_HOME
  ownHome ??= makeOwnHome()
  return ownHome
}

function makeOwnHome(): string {
  const path = mkdtempSync(join(tmpdir(), 'dms-test-home-'))
  process.on('exit', () => rmSync(path, { recursive: true, force: true }))
  return path
}

/** Runs `dms args…` to its end. */
export function run(
  args: readonly string[],
  { env, input = '', timeout = 120_000, node = process.execPath }: RunOptions = {},
): Promise<Ended> {
  return runProgram(node, [executable, ...args], { env: bareEnvironment(env), input, timeout })
}

/** Runs `dms args…` on a pseudo-terminal; `stdout` includes standard error, as on a screen. Needs the program `script`. */
export function runOnTerminal(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return runLineOnTerminal([process.execPath, executable, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' '), options)
}

/** Runs a line of shell on a pseudo-terminal. */
export async function runLineOnTerminal(line: string, { env, input = '', reply, timeout = 120_000 }: RunOptions = {}): Promise<Ended> {
  const variables = bareEnvironment({ TERM: 'xterm', SHELL: '/bin/sh', ...env })
  const ended = await runProgram('script', ['-qec', line, '/dev/null'], { env: variables, input, reply, timeout })
  return { ...ended, stdout: ended.stdout.replaceAll('\r\n', '\n') }
}

/** Whether there is a program of that name on the PATH. */
export const hasProgram = (name: string): boolean => findProgram(name) !== null

type ProgramOptions = Pick<RunOptions, 'reply'> & Required<Pick<RunOptions, 'env' | 'input' | 'timeout'>>

function runProgram(program: string, args: readonly string[], { env, input, reply, timeout }: ProgramOptions): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, timeout, killSignal: 'SIGKILL' })
    let stdout = ''
    let stderr = ''
    let waiting = reply
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      if (!waiting || !stdout.includes(waiting.to)) return
      child.stdin.write(waiting.type)
      waiting = undefined
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
    // A command that does not read its input may be gone before all of it is written.
    child.stdin.on('error', () => {})
    if (!reply) child.stdin.end(input)
  })
}
