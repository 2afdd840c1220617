/** Passwords from a file or a command, for runs without a terminal. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { Context } from '../remote/contexts.ts'
import { Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/private-file.ts'

export type PasswordSource = Pick<Context, 'password_file' | 'password_command'>

/** Time limit of a password command. */
const commandTimeoutMs = 60_000

export const hasPasswordSource = ({ password_file, password_command }: PasswordSource): boolean =>
  Boolean(password_file ?? password_command)

/** Describes the source for error messages. */
export const describePasswordSource = ({ password_file, password_command }: PasswordSource): string =>
  password_file ?? `the output of "${password_command}"`

/** Reads the password without its last line break. Throws Failure AUTH. */
export async function readPassword(source: PasswordSource, env: Env, { canPrompt }: Pick<GlobalOptions, 'canPrompt'>): Promise<string> {
  const all =
    source.password_file === undefined
      ? await runPasswordCommand(source.password_command ?? '', env, canPrompt)
      : await readPasswordFile(source.password_file)
  const password = all.replace(/\r?\n$/, '')
  if (password === '') throw new Failure('AUTH', `no password: ${describePasswordSource(source)} is empty`)
  return password
}

const readPasswordFile = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((error: Error) => {
    throw new Failure('AUTH', `cannot read the password file: ${error.message}`)
  })

/** Runs the command in a shell. Without a terminal its standard input is empty, so that it cannot wait for an answer. */
async function runPasswordCommand(command: string, env: Env, canPrompt: boolean): Promise<string> {
  const { DMS_TOKEN: _ours, ...rest } = env
  const child = spawn('/bin/sh', ['-c', command], {
    env: rest,
    stdio: [canPrompt ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    detached: !canPrompt,
  })
  // Kills the whole process group, unless the group shares the terminal.
  const timer = setTimeout(() => (canPrompt || !child.pid ? child.kill('SIGKILL') : process.kill(-child.pid, 'SIGKILL')), commandTimeoutMs)
  const ended = new Promise<string | null>((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('close', (code, signal) => resolve(code === 0 ? null : `exit status ${signal ?? code}`))
  })
  const [output, problem] = await Promise.all([text(child.stdout).catch(() => ''), ended])
  clearTimeout(timer)
  if (problem !== null) throw new Failure('AUTH', `the password command "${command}" failed: ${problem}`)
  return output
}
