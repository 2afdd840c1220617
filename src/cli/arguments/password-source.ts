/** Passwords that a file holds or a command prints: for commands that run when nobody is there to be asked. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import type { Context } from '../remote/contexts.ts'
import { Failure } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import type { Env } from '../runtime/user-folders.ts'

export type PasswordSource = Pick<Context, 'password_file' | 'password_command'>

/** Milliseconds that a command may take to print a password. */
const patience = 60_000

export const hasPassword = ({ password_file, password_command }: PasswordSource): boolean => Boolean(password_file ?? password_command)

/** How a message names it. */
export const placeOf = ({ password_file, password_command }: PasswordSource): string =>
  password_file ?? `the output of "${password_command}"`

/** Reads the password: all of the file, or of what the command prints, but for the last line break. Throws Failure AUTH. */
export async function passwordFrom(source: PasswordSource, env: Env, { canAsk }: Pick<GlobalOptions, 'canAsk'>): Promise<string> {
  const all =
    source.password_file === undefined ? await printed(source.password_command ?? '', env, canAsk) : await read(source.password_file)
  const password = all.replace(/\r?\n$/, '')
  if (password === '') throw new Failure('AUTH', `${placeOf(source)} is empty; a password was expected`)
  return password
}

const read = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((error: Error) => {
    throw new Failure('AUTH', `the password cannot be read: ${error.message}`)
  })

/** Runs it in a shell. Without somebody at the terminal its standard input is empty, so that it cannot wait for an answer. */
async function printed(command: string, env: Env, canAsk: boolean): Promise<string> {
  const { DMS_TOKEN: _ours, ...rest } = env
  const child = spawn('/bin/sh', ['-c', command], {
    env: rest,
    stdio: [canAsk ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    detached: !canAsk,
  })
  // What it started as well, unless that shares our terminal.
  const clock = setTimeout(() => (canAsk || !child.pid ? child.kill('SIGKILL') : process.kill(-child.pid, 'SIGKILL')), patience)
  const ended = new Promise<string | null>((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('close', (code, signal) => resolve(code === 0 ? null : `it ended with ${signal ?? code}`))
  })
  const [output, problem] = await Promise.all([text(child.stdout).catch(() => ''), ended])
  clearTimeout(clock)
  if (problem !== null) throw new Failure('AUTH', `the password command "${command}" failed: ${problem}`)
  return output
}
