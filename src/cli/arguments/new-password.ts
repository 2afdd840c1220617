/** Sources of a new password: prompt, standard input, file, generator, or none. */
import type { Command } from 'commander'
import type { Shape } from '../output/output.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'
import { readSecret } from './secret.ts'

export interface PasswordFlags {
  passwordStdin?: boolean
  passwordFile?: string
  generatePassword?: boolean
  /** false: --no-password */
  password?: boolean
}

/** Variable with the password; NAME_FILE holds the path of a file with it. */
const variable = 'DMS_USER_PASSWORD'

/** Adds the flags that select the source of the password. */
export const addPasswordFlags = (command: Command): Command =>
  command
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', `read the password from a file (also ${variable}, ${variable}_FILE)`)
    .option('--generate-password', 'generate a password and print it once')

/** Reads or generates the password. Returns null for --no-password. Throws Failure USAGE. */
export async function readNewPassword(cli: Cli, flags: PasswordFlags): Promise<string | null> {
  const { passwordStdin: isStdin, passwordFile: file, generatePassword, password } = flags
  const sourceCount = [isStdin, file !== undefined, generatePassword, password === false].filter(Boolean).length
  if (sourceCount > 1) throw usage('--password-stdin, --password-file, --generate-password and --no-password exclude each other')
  if (password === false) return null
  if (!generatePassword) return readSecret(cli.options, 'password', { isStdin, file, env: cli.env, variable, isNew: true })
  const passwords = await import('../../users/passwords.ts')
  return passwords.generatePassword()
}

/** Prints a generated password on a line of its own, for a pipe. With -o json it is a field of the user. */
export function printGeneratedPassword<T extends object>(
  cli: Cli,
  owner: T,
  password: string | null,
  { columns, sentence }: Shape<T>,
): void {
  for (const line of [sentence ?? []].flat()) cli.note(line)
  const { isJson } = cli.options
  if (isJson) cli.print({ ...owner, password }, { columns })
  else cli.write(`${password}\n`)
}
