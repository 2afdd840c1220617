/** Secrets from a prompt, a pipe, a variable or a file. Command lines are readable by every user of the machine. */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { usage } from '../runtime/exit.ts'
import type { GlobalOptions } from '../runtime/options.ts'
import { promptPassword } from './prompt.ts'

interface SecretOptions {
  /** --<name>-stdin */
  readonly isStdin?: boolean | undefined
  /** --<name>-file PATH */
  readonly file?: string | undefined
  /** environment, and the variable with the secret; NAME_FILE holds the path of a file with it */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly variable?: string
  /** whether a prompt asks twice */
  readonly isNew?: boolean
}

/** Reads the secret `name` from standard input, a file, a variable or a prompt. Throws Failure USAGE. */
export async function readSecret(
  options: Pick<GlobalOptions, 'canPrompt'>,
  name: string,
  { isStdin, file: flagFile, env = {}, variable = '', isNew = false }: SecretOptions,
): Promise<string> {
  if (isStdin && flagFile !== undefined) throw usage(`--${name}-stdin excludes --${name}-file`)
  if (!isStdin && flagFile === undefined && env[variable]) return env[variable]
  const file = flagFile ?? (isStdin ? undefined : env[`${variable}_FILE`] || undefined)
  if (!isStdin && file === undefined)
    return promptPassword(options, `${name[0]?.toUpperCase()}${name.slice(1)}:`, `--${name}-stdin or --${name}-file FILE`, { isNew })
  const secret = (isStdin ? await text(process.stdin) : await readSecretFile(file ?? '')).replace(/\r?\n$/, '')
  if (secret === '') throw usage(`the ${name} is empty`)
  return secret
}

async function readSecretFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw usage(`cannot read the file with the secret: ${(error as Error).message}`)
  }
}
