/** The backup that a command line names. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { BackupSource } from '../../backup/backup-source.ts'
import type { SignaturePolicy } from '../../backup/signature.ts'
import type { Cli } from '../runtime/context.ts'
import { usage } from '../runtime/exit.ts'

/** Opens a backup: `-` is standard input, else a path, else a name in backup.path. Throws AppError NOT_FOUND, Failure USAGE. */
export async function resolveBackup(cli: Cli, backup: string): Promise<BackupSource> {
  const { openSource, streamSource } = await import('../../backup/backup-source.ts')
  if (backup === '-') {
    if (process.stdin.isTTY)
      throw usage('"-" reads an archive from standard input, which is a terminal', 'pipe an archive in, or pass a file')
    return streamSource(process.stdin, 'standard input')
  }
  const { config } = await cli.config()
  const inRepository = join(config.backup.path, backup)
  const isName = !backup.includes('/') && existsSync(inRepository) && !existsSync(backup)
  return openSource(isName ? inRepository : backup)
}

/** Rejects --to-database with a password, because every user of the machine can read a command line. Throws Failure USAGE. */
export function rejectUrlPassword(url: string | undefined): void {
  if (url !== undefined && /^\w+:\/\/[^/@]*:[^/@]+@|[?&]password=/.test(url))
    throw usage('--to-database must not contain a password', 'use PGPASSFILE, or pass the whole URL in DATABASE_URL')
}

export interface SigningKeyFlags {
  keyFile?: string
  unsignedOk?: boolean
}

/** Loads the key that signatures are checked with. Throws ConfigError if the key cannot be read. */
export async function loadSignaturePolicy(keyFile: string, { unsignedOk }: SigningKeyFlags): Promise<SignaturePolicy> {
  const { readKey } = await import('../../backup/signature.ts')
  const key = await readKey(keyFile, 'pass the key that the backup was signed with')
  return { key, acceptsUnsigned: unsignedOk === true }
}
