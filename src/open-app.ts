/** The only place where parts are chosen and joined. */
import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { App } from './app.ts'
import { openEncryptedTokens } from './auth/encrypted-tokens.ts'
import { openTokens } from './auth/jwt.ts'
import type { Config } from './config/schema.ts'
import { readOrCreateSecret } from './config/secret-file.ts'
import { loadStates, migrate, NewerSchema, PendingMigrations } from './db/migrate.ts'
import { type Address, openDatabase } from './db/pool.ts'
import { type OwnedDatabase, openOwnedDatabase } from './db/schema-owner.ts'
import { ConfigError } from './errors.ts'
import { openReader } from './extract/process/reader-pool.ts'
import { checkStoreMarker, storeFolder } from './files/store-marker.ts'
import { stores } from './files/stores/registry.ts'
import type { Log } from './log/log.ts'
import { findOcr } from './ocr/languages.ts'
import type { DocumentReader } from './ports/document-reader.ts'
import type { FileStore } from './ports/file-store.ts'
import type { OcrSetup } from './ports/ocr-engine.ts'
import { engines } from './search/engines/registry.ts'
import { openPasswords } from './users/passwords.ts'

export interface OpenOptions {
  /** `embedded`: only the database that dms brings along is migrated by itself */
  migrate: 'always' | 'embedded' | 'never'
  /** connections keep to the configured statement timeout; off for long-running work */
  hasStatementTimeout?: boolean
  /** the clock */
  now?: () => Date
  monotonicMs?: () => number
}

export interface OpenedDatabase extends OwnedDatabase {
  /** the PostgreSQL that dms brings along, rather than one of the administrator's */
  isEmbedded: boolean
}

/** Joins everything into an App; `close()` gives all of it back. Throws ConfigError, PendingMigrations, NewerSchema, Busy. */
export async function openApp(config: Config, log: Log, options: OpenOptions): Promise<App & { close(): Promise<void> }> {
  const closers: (() => Promise<void>)[] = []
  const closing = async () => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    const database = await openConfiguredDatabase(config, log, options.hasStatementTimeout ?? true)
    closers.push(() => database.close())
    const { db } = database
    await migrateSchema(database, config, log, options.migrate)
    const storage = { ...config.storage, path: storeFolder(config) }
    const files = await stores[storage.kind]({ ...config, storage })
    closers.push(() => files.close())
    if (storage.kind === 'disk') await checkStoreMarker(db, storage.path)
    const ocr = config.ocr.enabled
      ? await findOcr({ engine: config.ocr.engine, dataPath: config.ocr.data_path || join(config.data_dir, 'tessdata') })
      : null
    const reader = openReaderFor(config, log, ocr, readerSlots(config), 'reading')
    const previewer = openReaderFor(config, log, null, 1, 'previews')
    closers.push(
      () => reader.close(),
      () => previewer.close(),
    )
    const secret = await loadJwtSecret(config)
    const mailer = config.smtp.url === '' ? null : (await import('./mail/smtp.ts')).smtpMailer(config.smtp)
    closers.push(async () => mailer?.close())
    const search = await engines[config.search.engine]({ config, db, database, log })
    return {
      config,
      log,
      db,
      reads: database.reads,
      database,
      files,
      search,
      ocr,
      reader,
      previewer,
      mailer,
      identities: config.auth.method === 'oidc' ? (await import('./auth/openid-provider.ts')).openIdentityProvider(config.oidc, log) : null,
      tokens: openTokens(secret),
      encryptedTokens: openEncryptedTokens(secret),
      passwords: openPasswords(),
      now: options.now ?? (() => new Date()),
      monotonicMs: options.monotonicMs ?? (() => performance.now()),
      close: closing,
    }
  } catch (error) {
    await closing()
    throw error
  }
}

/** The database and the document store alone, whatever state the schema is in: what backup and restore work on. */
export interface Installation {
  /** with `storage.path` filled in */
  readonly config: Config
  readonly log: Log
  readonly database: OpenedDatabase
  readonly files: FileStore
}

/** Opens them; nothing is migrated, and the two may belong to different dms. Throws ConfigError. */
export async function openInstallation(config: Config, log: Log): Promise<Installation & { close(): Promise<void> }> {
  const storage = { ...config.storage, path: storeFolder(config) }
  const database = await openConfiguredDatabase(config, log, false)
  try {
    const files = await stores[storage.kind]({ ...config, storage })
    const close = () => files.close().then(() => database.close())
    return { config: { ...config, storage }, log, database, files, close }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Connects to the configured database, or starts or joins the embedded one. */
export async function openConfiguredDatabase(config: Config, log: Log, hasStatementTimeout: boolean): Promise<OpenedDatabase> {
  const { url, migration_url, pool_max, connect_timeout, statement_timeout, ssl_ca } = config.database
  const statementTimeoutMs = hasStatementTimeout ? statement_timeout : 0
  const settings = { poolMax: pool_max, connectTimeoutMs: connect_timeout, statementTimeoutMs, log }
  if (url !== '') {
    const ssl = ssl_ca === '' ? {} : { ssl: { ca: await readFile(ssl_ca, 'utf8') } }
    const address = { connectionString: url, ...ssl } as Address
    const database = openDatabase({ ...settings, address })
    if (migration_url === '') return { ...database, asOwner: (work) => work(database), isEmbedded: false }
    const owned = openOwnedDatabase(database, { ...settings, address: { ...address, connectionString: migration_url } })
    return { ...(await closeOnFailure(owned, database.close)), isEmbedded: false }
  }
  const { joinEmbedded } = await import('./db/embedded/embedded.ts')
  const embedded = await joinEmbedded({ dataDir: config.data_dir, log })
  const opened = openDatabase({ ...settings, address: embedded.connection })
  const close = async () => {
    await opened.close()
    await embedded.release()
  }
  const owned = openOwnedDatabase(opened, { ...settings, address: embedded.ownerConnection })
  return { ...(await closeOnFailure(owned, close)), isEmbedded: true, close }
}

async function closeOnFailure<T>(opening: Promise<T>, close: () => Promise<void>): Promise<T> {
  try {
    return await opening
  } catch (error) {
    await close()
    throw error
  }
}

async function migrateSchema(database: OpenedDatabase, config: Config, log: Log, when: OpenOptions['migrate']): Promise<void> {
  const states = await loadStates(database.db)
  const newer = states.filter(({ unknown }) => unknown)
  if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
  const pending = states.filter(({ applied_at }) => applied_at === null)
  if (pending.length === 0) return
  const isAllowed = when === 'always' || (when === 'embedded' && (database.isEmbedded || config.database.auto_migrate))
  if (!isAllowed) throw new PendingMigrations(pending.map(({ name }) => name))
  await database.asOwner((owner) => migrate(owner, config.database.lock_timeout, (name) => log.info({ migration: name }, 'migrated')))
}

/** One reader a core, unless told otherwise. */
const readerSlots = (config: Config): number => config.worker.concurrency || availableParallelism()

function openReaderFor({ ocr, data_dir }: Config, log: Log, setup: OcrSetup | null, slots: number, name: string): DocumentReader {
  return openReader({
    slots,
    tempDir: join(data_dir, 'tmp', name),
    log,
    ocr: setup,
    limits: {
      outlineTimeout: ocr.timeout,
      pageTimeout: ocr.page_timeout,
      thumbnailTimeout: Math.min(ocr.page_timeout, 30_000),
      memory: ocr.memory_limit,
      maxPages: ocr.max_pages,
      maxPixels: ocr.max_pixels,
      dpi: ocr.dpi,
    },
  })
}

/** The configured secret, or one that is made once and kept. */
async function loadJwtSecret({ auth, data_dir }: Config): Promise<Uint8Array> {
  if (auth.jwt_secret !== '') return Buffer.from(auth.jwt_secret)
  const path = join(data_dir, 'jwt_secret')
  const secret = await readOrCreateSecret(path, 48)
  if (secret.length < 32)
    throw new ConfigError([`${path}: holds ${secret.length} characters; at least 32 are needed (remove the file to have one made)`])
  return Buffer.from(secret)
}
