/** A backup as it is named at the shell. */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import type { BackupSource } from '../../backup/backup-source.ts'
import type { SignaturePolicy } from '../../backup/signature.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'

/** `-` is standard input; else a path, else a name in backup.path. Throws AppError NOT_FOUND, Failure USAGE. */
export async function backupNamed(cli: Cli, given: string): Promise<BackupSource> {
  const { openSource, streamSource } = await import('../../backup/backup-source.ts')
  if (given === '-') {
    if (process.stdin.isTTY) throw usage('standard input is a terminal', 'send an archive into it, or name a file')
    return streamSource(process.stdin, 'standard input')
  }
  const { config } = await cli.config()
  const shelved = join(config.backup.path, given)
  const isShelved = !given.includes('/') && (await isThere(shelved)) && !(await isThere(given))
  return openSource(isShelved ? shelved : given)
}

/** Refuses --to-database with a password: everybody on the machine can read a command line. Throws Failure USAGE. */
export function refusePassword(url: string | undefined): void {
  if (url !== undefined && /^\w+:\/\/[^/@]*:[^/@]+@|[?&]password=/.test(url))
    throw usage('--to-database must not hold a password', 'put it into PGPASSFILE, or the whole URL into DATABASE_URL')
}

export interface KeyFlags {
  keyFile?: string
  unsignedOk?: boolean
}

/** What --key-file says, as a setting. */
export const keySettings = ({ keyFile }: KeyFlags): Record<string, string> => (keyFile === undefined ? {} : { 'backup.key_file': keyFile })

/** How the signature of a backup is checked. Throws ConfigError where the key cannot be read. */
export async function signaturePolicy(keyFile: string, { unsignedOk }: KeyFlags): Promise<SignaturePolicy> {
  const { readKey } = await import('../../backup/signature.ts')
  return { key: await readKey(keyFile), acceptsUnsigned: unsignedOk === true }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
