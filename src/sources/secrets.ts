/** Usernames and passwords of sources, sealed (AES-256-GCM) before they reach the database. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readOrCreateSecret, replaceSecretFile } from '../config/secret-file.ts'
import type { Trx } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import { SourceFailure } from '../ports/source-type.ts'

export interface Credentials {
  username: string | null
  password: string | null
}

/** What is sealed begins with this, then 4 bytes that tell the key, 12 random ones, 16 that prove the rest. */
const version = 1
const sizes = { key: 32, id: 4, iv: 12, tag: 16 }
const fileName = 'sources_key'

/** Seals what gets into one source; null where there is nothing to seal. Call it in the transaction that writes the result. */
export async function seal(app: App, trx: Trx, sourceId: string, credentials: Credentials): Promise<Buffer | null> {
  if (credentials.username === null && credentials.password === null) return null
  // The key may be on its way to be changed: we pass before that, or read the new one.
  await sql`select pg_advisory_xact_lock_shared(hashtext('dms'), hashtext('sources.key'))`.execute(trx)
  const [key] = await keys(app)
  return sealed(key, sourceId, credentials)
}

/** Opens what seal() made. Throws SourceFailure SOURCE_UNAUTHORIZED where none of the keys is the one it was sealed with. */
export async function unseal(app: App, sourceId: string, bytes: Buffer | null): Promise<Credentials> {
  if (bytes === null) return { username: null, password: null }
  return opened(await keys(app), sourceId, bytes)
}

/** Seals all credentials anew: under a key made now, or under the configured one. `old` (base64): the key before it. Returns how many. */
export async function rotate(app: App, old: string | null): Promise<number> {
  const path = join(app.config.data_dir, fileName)
  const isConfigured = app.config.sources.encryption_key !== ''
  const before = [...(await keys(app)), ...(old === null ? [] : [keyOf(old, 'the old key')])] as const
  // With both keys in the file, whatever happens in between leaves everything readable.
  const fresh = isConfigured ? before[0] : randomBytes(sizes.key)
  if (!isConfigured) await replaceSecretFile(path, [fresh, ...before].map((key) => key.toString('base64')).join('\n'))
  const count = await app.db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('dms'), hashtext('sources.key'))`.execute(trx)
    const sources = await trx.selectFrom('sources').select(['id', 'credentials']).where('credentials', 'is not', null).forUpdate().execute()
    for (const { id, credentials } of sources) {
      const plain = opened([fresh, ...before], id, credentials as Buffer)
      await trx
        .updateTable('sources')
        .set({ credentials: sealed(fresh, id, plain) })
        .where('id', '=', id)
        .execute()
    }
    return sources.length
  })
  if (!isConfigured) await replaceSecretFile(path, fresh.toString('base64'))
  return count
}

type Keys = readonly [Buffer, ...Buffer[]]

/** The key to seal with, then others that may have sealed what is there. */
async function keys({ config }: App): Promise<Keys> {
  const path = join(config.data_dir, fileName)
  const configured = config.sources.encryption_key
  // A key that was made before one was configured still opens what it sealed.
  const text = configured === '' ? await readOrCreateSecret(path, sizes.key) : await readFile(path, 'utf8').catch(() => '')
  const kept = text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => keyOf(line, path))
  const [first, ...rest] = configured === '' ? kept : [keyOf(configured, 'sources.encryption_key'), ...kept]
  if (!first)
    throw new ConfigError([`${path} is empty: put back the key that it held, or remove it and give the passwords of all sources again`])
  return [first, ...rest]
}

function keyOf(text: string, place: string): Buffer {
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== sizes.key) throw new ConfigError([`${place}: not a key of ${sizes.key} bytes in base64`])
  return key
}

const idOf = (key: Buffer): Buffer => createHash('sha256').update(key).digest().subarray(0, sizes.id)

function sealed(key: Buffer, sourceId: string, credentials: Credentials): Buffer {
  const iv = randomBytes(sizes.iv)
  // Bound to its source: the row of one cannot be put into the place of another's.
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(sourceId))
  const secret = Buffer.concat([cipher.update(JSON.stringify(credentials)), cipher.final()])
  return Buffer.concat([Buffer.from([version]), idOf(key), iv, cipher.getAuthTag(), secret])
}

function opened(keys: readonly Buffer[], sourceId: string, bytes: Buffer): Credentials {
  const [id, iv, tag, secret] = split(bytes)
  const key = keys.find((each) => idOf(each).equals(id))
  try {
    if (!key || bytes[0] !== version) throw new Error('sealed with another key')
    const decipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(sourceId)).setAuthTag(tag)
    return JSON.parse(Buffer.concat([decipher.update(secret), decipher.final()]).toString())
  } catch {
    throw new SourceFailure('SOURCE_UNAUTHORIZED', 'The stored password was sealed with another key; it has to be given again.')
  }
}

function split(bytes: Buffer): [id: Buffer, iv: Buffer, tag: Buffer, secret: Buffer] {
  const iv = 1 + sizes.id
  const tag = iv + sizes.iv
  const secret = tag + sizes.tag
  return [bytes.subarray(1, iv), bytes.subarray(iv, tag), bytes.subarray(tag, secret), bytes.subarray(secret)]
}
