/** Signs and verifies backup manifests with HMAC-SHA-256 (RFC 2104). The key is stored outside of the backup. */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { ConfigError } from '../errors.ts'
import { quote, shellWord } from '../log/escape.ts'
import { BackupDamaged } from './manifest.ts'

export interface SignaturePolicy {
  /** null: signatures are not checked */
  key: Buffer | null
  /** accepts an unsigned backup although a key is set */
  acceptsUnsigned: boolean
}

/** Separates these signatures from other uses of the same key. */
const domainPrefix = 'dms backup manifest 1\n'
const minKeyBytes = 32

/** Returns the manifest with its signature as the last field. */
export const addSignature = <T extends object>(manifest: T, key: Buffer): T & { hmac: string } => ({
  ...manifest,
  hmac: computeHmac(manifest, key),
})

/** Verifies the signature in the text of a manifest. It covers the checksum list and with it every entry. Throws BackupDamaged. */
export function checkSignature(text: string, { key, acceptsUnsigned }: SignaturePolicy): void {
  if (!key) return
  const { hmac, ...rest } = JSON.parse(text) as { hmac?: unknown }
  if (hmac === undefined) {
    if (acceptsUnsigned) return
    throw new BackupDamaged('is not signed, but backup.key_file is set', 'if you know where the backup comes from: --unsigned-ok')
  }
  const [expected, actual] = [computeHmac(rest, key), String(hmac)]
  if (actual.length === expected.length && timingSafeEqual(Buffer.from(actual, 'latin1'), Buffer.from(expected, 'latin1'))) return
  throw new BackupDamaged(
    'has a wrong signature: it was changed, or signed with another key',
    'pass --key-file with the key that it was made with',
  )
}

/**
 * Reads a key file and trims white space. Returns null for an empty path. Throws ConfigError for an unreadable file or a short key; `fix` is the remedy for
 * a missing one.
 */
export async function readKey(path: string, fix: string = createCommand(path)): Promise<Buffer | null> {
  if (path === '') return null
  const text = await readFile(path, 'latin1').catch((error: NodeJS.ErrnoException) => {
    // Only a missing file: the command would replace the key of all earlier backups.
    const fixes: Record<string, string> = {
      ENOENT: `: ${fix}`,
      EACCES: `; fix: chown ${process.getuid?.()} ${quote(path)}`,
    }
    throw new ConfigError([`backup.key_file ${path} cannot be read (${error.code})${fixes[error.code ?? ''] ?? ''}`])
  })
  const key = Buffer.from(text.trim(), 'latin1')
  if (key.length >= minKeyBytes) return key
  throw new ConfigError([`backup.key_file ${path} has ${key.length} bytes, but needs at least ${minKeyBytes}: ${fix}`])
}

const createCommand = (path: string): string => `create one with openssl rand -base64 48 > ${shellWord(path)}`

const computeHmac = (manifest: object, key: Buffer): string =>
  createHmac('sha256', key).update(domainPrefix).update(JSON.stringify(manifest)).digest('hex')
