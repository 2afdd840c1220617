/** Encrypts the usernames and passwords of sources (AES-256-GCM) for storage in the database. */
import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readOrCreateSecret, replaceSecretFile } from '../config/secret-file.ts'
import { withLock } from '../db/lock.ts'
import type { Trx } from '../db/pool.ts'
import { ConfigError, invalid } from '../errors.ts'
import { dms } from '../log/fix.ts'
import { SourceFailure } from '../ports/source-type.ts'

export interface Credentials {
  username: string | null
  password: string | null
}

export const noCredentials: Credentials = { username: null, password: null }

/** Format: this byte, key id, initialization vector, authentication tag, ciphertext. */
const formatVersion = 1
const byteLengths = { key: 32, id: 4, iv: 12, tag: 16 }
const fileName = 'sources_key'

/** Encrypts the credentials of a source; null for empty ones. Call it in the transaction that stores the result. */
export async function encryptCredentials(app: App, trx: Trx, sourceId: string, credentials: Credentials): Promise<Buffer | null> {
  if (credentials.username === null && credentials.password === null) return null
  // Waits for a key rotation in progress, then uses the new key.
  await sql`select pg_advisory_xact_lock_shared(hashtext('dms'), hashtext('sources.key'))`.execute(trx)
  const [key] = await loadKeys(app)
  return encrypt(key, sourceId, credentials)
}

/** Decrypts stored credentials. Throws SourceFailure SOURCE_UNAUTHORIZED if no key matches. */
export async function decryptCredentials(app: App, sourceId: string, bytes: Buffer | null): Promise<Credentials> {
  if (bytes === null) return noCredentials
  return decrypt(await loadKeys(app), sourceId, bytes)
}

/** Decrypts credentials that `changes` replace. If that fails, an update may replace both or none: it would lose the other one. Throws VALIDATION_ERROR. */
export async function decryptReplaced(
  app: App,
  { id, credentials }: { id: string; credentials: Buffer | null },
  changes: Partial<Credentials>,
): Promise<Credentials> {
  try {
    return await decryptCredentials(app, id, credentials)
  } catch {
    const missing = (['username', 'password'] as const).filter((field) => changes[field] === undefined)
    if (missing.length === 1) throw invalid(missing[0]!, 'give username and password together: the stored ones cannot be decrypted')
    return noCredentials
  }
}

/**
 * Re-encrypts all credentials with the configured key, or with a new random key. `old`: previous key in base64. Returns their number. Throws Busy while
 * another rotation runs: two would overwrite each other's keys in the file.
 */
export const rotateKey = (app: App, old: string | null): Promise<number> =>
  withLock(app.database, 'sources.rotate-key', 0, () => reencrypt(app, old), { label: 'sources rotate-key' })

async function reencrypt(app: App, old: string | null): Promise<number> {
  const path = join(app.config.data_dir, fileName)
  const isConfigured = app.config.sources.encryption_key !== ''
  const before = [...(await loadKeys(app)), ...(old === null ? [] : [parseKey(old, 'the old key')])] as const
  // While both keys are in the file, an interruption leaves everything readable.
  const newKey = isConfigured ? before[0] : randomBytes(byteLengths.key)
  if (!isConfigured) await replaceSecretFile(path, [newKey, ...before].map((key) => key.toString('base64')).join('\n'))
  const count = await app.db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('dms'), hashtext('sources.key'))`.execute(trx)
    const sources = await trx
      .selectFrom('sources')
      .select(['id', 'name', 'credentials'])
      .where('credentials', 'is not', null)
      .forUpdate()
      .execute()
    for (const { id, name, credentials } of sources) {
      const plain = decryptNamed([newKey, ...before], { id, name }, credentials as Buffer)
      await trx
        .updateTable('sources')
        .set({ credentials: encrypt(newKey, id, plain) })
        .where('id', '=', id)
        .execute()
    }
    return sources.length
  })
  if (!isConfigured) await replaceSecretFile(path, newKey.toString('base64'))
  return count
}

/** Throws SourceFailure with the name of the source if no key matches. */
function decryptNamed(keys: Keys, { id, name }: { id: string; name: string }, bytes: Buffer): Credentials {
  try {
    return decrypt(keys, id, bytes)
  } catch {
    const message = `Cannot decrypt the password of source "${name}": it was encrypted with another key`
    const fix = [dms`sources rotate-key --old-key-file FILE`, ', or ', dms`sources update ${name} --username USER --password-file FILE`]
    throw Object.assign(new SourceFailure('SOURCE_UNAUTHORIZED', message), { fix })
  }
}

type Keys = readonly [Buffer, ...Buffer[]]

/** Returns the key for encryption, followed by further keys for decryption. */
async function loadKeys({ config }: App): Promise<Keys> {
  const path = join(config.data_dir, fileName)
  const configured = config.sources.encryption_key
  // A key generated before one was configured still decrypts.
  const text = configured === '' ? await readOrCreateSecret(path, byteLengths.key) : await readFile(path, 'utf8').catch(() => '')
  const fileKeys = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => parseKey(line, path))
  const [first, ...rest] = configured === '' ? fileKeys : [parseKey(configured, 'sources.encryption_key'), ...fileKeys]
  if (!first)
    throw new ConfigError([
      `${path} is empty: restore the key from a backup, or remove the file and set the passwords of all sources again`,
    ])
  return [first, ...rest]
}

function parseKey(text: string, place: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== byteLengths.key) throw new ConfigError([`${place}: not a key of ${byteLengths.key} bytes in base64`])
  return key
}

const keyId = (key: Buffer): Buffer => hash('sha256', key, 'buffer').subarray(0, byteLengths.id)

function encrypt(key: Buffer, sourceId: string, credentials: Credentials): Buffer {
  const iv = randomBytes(byteLengths.iv)
  // The source id is authenticated: credentials cannot be copied to another source.
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(sourceId))
  const secret = Buffer.concat([cipher.update(JSON.stringify(credentials)), cipher.final()])
  return Buffer.concat([Buffer.from([formatVersion]), keyId(key), iv, cipher.getAuthTag(), secret])
}

function decrypt(keys: readonly Buffer[], sourceId: string, bytes: Buffer): Credentials {
  const [id, iv, tag, secret] = splitCiphertext(bytes)
  const key = keys.find((each) => keyId(each).equals(id))
  try {
    if (!key || bytes[0] !== formatVersion) throw new Error('encrypted with another key')
    const decipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(sourceId)).setAuthTag(tag)
    return JSON.parse(Buffer.concat([decipher.update(secret), decipher.final()]).toString())
  } catch {
    throw new SourceFailure(
      'SOURCE_UNAUTHORIZED',
      'The stored password was encrypted with another key. Set user name and password again, and sources.encryption_key to one value on all machines.',
    )
  }
}

function splitCiphertext(bytes: Buffer): [id: Buffer, iv: Buffer, tag: Buffer, secret: Buffer] {
  const iv = 1 + byteLengths.id
  const tag = iv + byteLengths.iv
  const secret = tag + byteLengths.tag
  return [bytes.subarray(1, iv), bytes.subarray(iv, tag), bytes.subarray(tag, secret), bytes.subarray(secret)]
}
