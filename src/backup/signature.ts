/** Signs the manifest of a backup with a key that lies outside of it (HMAC-SHA-256, RFC 2104): whoever can write the backup cannot make another one. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { ConfigError } from '../errors.ts'
import { BackupDamaged } from './manifest.ts'

export interface SignaturePolicy {
  /** null: signatures are not looked at */
  key: Buffer | null
  /** takes a backup without a signature although there is a key */
  isUnsignedOk: boolean
}

/** Distinguishes these signatures from any other use of the same key. */
const purpose = 'dms backup manifest 1\n'
const minKeyBytes = 32

/** Returns the manifest with its signature as the last field. */
export const signed = <T extends object>(manifest: T, key: Buffer): T & { hmac: string } => ({ ...manifest, hmac: hmacOf(manifest, key) })

/** Compares the signature in the text of a manifest. It covers the manifest, which has the checksum of the list of all checksums. Throws BackupDamaged. */
export function checkSignature(text: string, { key, isUnsignedOk }: SignaturePolicy): void {
  if (!key) return
  const { hmac, ...rest } = JSON.parse(text) as { hmac?: unknown }
  if (hmac === undefined) {
    if (isUnsignedOk) return
    throw withFix('is not signed, but backup.key_file is set', 'if you know where the backup comes from: --unsigned-ok')
  }
  const [expected, found] = [hmacOf(rest, key), String(hmac)]
  if (found.length === expected.length && timingSafeEqual(Buffer.from(found, 'latin1'), Buffer.from(expected, 'latin1'))) return
  throw withFix('has a wrong signature: it was changed, or signed with another key', 'pass --key-file with the key that it was made with')
}

/** Reads a key: the bytes of the file without white space around. Throws ConfigError where there is none, or it is too short; null for no path. */
export async function readKey(path: string): Promise<Buffer | null> {
  if (path === '') return null
  const text = await readFile(path, 'latin1').catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError([`backup.key_file ${path} cannot be read (${error.code}): make one with openssl rand -base64 48 > ${path}`])
  })
  const key = Buffer.from(text.trim(), 'latin1')
  if (key.length >= minKeyBytes) return key
  throw new ConfigError([
    `backup.key_file ${path} holds ${key.length} bytes, at least ${minKeyBytes} are needed: make one with openssl rand -base64 48 > ${path}`,
  ])
}

const hmacOf = (manifest: object, key: Buffer): string =>
  createHmac('sha256', key).update(purpose).update(JSON.stringify(manifest)).digest('hex')

const withFix = (message: string, fix: string): Error => Object.assign(new BackupDamaged(message), { fix })
