/** The backup that a command line names. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { BackupSource } from '../../backup/backup-source.ts'
import type { SignaturePolicy } from '../../backup/signature.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'

/** Opens a backup: `-` is standard input, else a path, else a name in backup.path. Throws AppError NOT_FOUND, Failure USAGE. */
export async function resolveBackup(cli: Cli, given: string): Promise<BackupSource> {
  const { openSource, streamSource } = await import('../../backup/backup-source.ts')
  if (given === '-') {
    if (process.stdin.isTTY) throw usage('standard input is a terminal', 'send an archive into it, or name a file')
    return streamSource(process.stdin, 'standard input')
  }
  const { config } = await cli.config()
  const inRepository = join(config.backup.path, given)
  const isName = !given.includes('/') && existsSync(inRepository) && !existsSync(given)
  return openSource(isName ? inRepository : given)
}

/** Rejects --to-database with a password, because every user of the machine can read a command line. Throws Failure USAGE. */
export function rejectUrlPassword(url: string | undefined): void {
  if (url !== undefined && /^\w+:\/\/[^/@]*:[^/@]+@|[?&]password=/.test(url))
    throw usage('--to-database must not hold a password', 'put it into PGPASSFILE, or the whole URL into DATABASE_URL')
}

export interface SigningKeyFlags {
  keyFile?: string
  unsignedOk?: boolean
}

/** Returns --key-file as a setting. */
export const signingKeySettings = ({ keyFile }: SigningKeyFlags): Record<string, string> =>
  keyFile === undefined ? {} : { 'backup.key_file': keyFile }

/** Loads the key that signatures are checked with. Throws ConfigError if the key cannot be read. */
export async function loadSignaturePolicy(keyFile: string, { unsignedOk }: SigningKeyFlags): Promise<SignaturePolicy> {
  const { readKey } = await import('../../backup/signature.ts')
  return { key: await readKey(keyFile), acceptsUnsigned: unsignedOk === true }
}
