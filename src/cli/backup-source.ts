/** A backup as it is named at the shell. */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { Source } from '../backup/source.ts'
import type { Cli } from './context.ts'
import { usage } from './exit.ts'

/** `-` is standard input; else a path, else a name in backup.path. Throws AppError NOT_FOUND, Failure USAGE. */
export async function backupNamed(cli: Cli, given: string): Promise<Source> {
  const { sourceAt, streamSource } = await import('../backup/source.ts')
  if (given === '-') {
    if (process.stdin.isTTY) throw usage('standard input is a terminal', 'send an archive into it, or name a file')
    return streamSource(process.stdin, 'standard input')
  }
  const { config } = await cli.config()
  const shelved = join(config.backup.path, given)
  const isShelved = !given.includes('/') && (await isThere(shelved)) && !(await isThere(given))
  return sourceAt(isShelved ? shelved : given)
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
