/** A secret from a person, a pipe or a file; never from the command line, which everybody on the machine can read. */
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { usage } from './exit.ts'
import type { GlobalOptions } from './options.ts'
import { password } from './prompt.ts'

export interface SecretFlags {
  /** --<name>-stdin */
  readonly isStdin?: boolean | undefined
  /** --<name>-file PATH */
  readonly file?: string | undefined
}

/** Reads the secret called `name` ("password"): from standard input, from a file, or by a question, twice where it is new. Throws Failure USAGE. */
export async function readSecret(
  options: Pick<GlobalOptions, 'canAsk'>,
  name: string,
  { isStdin, file }: SecretFlags,
  isNew = false,
): Promise<string> {
  if (isStdin && file !== undefined) throw usage(`--${name}-stdin and --${name}-file exclude each other`)
  if (!isStdin && file === undefined)
    return password(options, `${name[0]?.toUpperCase()}${name.slice(1)}:`, `--${name}-stdin or --${name}-file FILE`, isNew)
  const secret = (isStdin ? await text(process.stdin) : await contentOf(file ?? '')).replace(/\r?\n$/, '')
  if (secret === '') throw usage(`the ${name} is empty`)
  return secret
}

async function contentOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw usage((error as Error).message)
  }
}
