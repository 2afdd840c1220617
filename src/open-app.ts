/** The composition root: chooses the adapters and opens the App. */
import { access } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { App } from './app.ts'
import { openEncryptedTokens, openTokens } from './auth/jwt.ts'
import type { Config } from './config/schema.ts'
import { readOrCreateSecret } from './config/secret-file.ts'
import { migrate, PendingMigrations, pendingUpTo } from './db/migrate.ts'
import { loadAddress, openDatabase } from './db/pool.ts'
import { openReplicas, type Replica } from './db/replica.ts'
import { type OwnedDatabase, openOwnedDatabase } from './db/schema-owner.ts'
import { ConfigError, NoData } from './errors.ts'
import { openConfiguredReader } from './extract/process/configured-reader.ts'
import { claimStore } from './files/database-marker.ts'
import { openPrimary, openStores } from './files/open-stores.ts'
import { claimDataFolder, readStoreId, rejectUnfinishedRestore } from './files/restore-marker.ts'
import { checkStoreMarker, storeFolder } from './files/store-marker.ts'
import { storeMarkers } from './files/stores/registry.ts'
import { recordUse } from './files/used-stores.ts'
import type { Log } from './log/log.ts'
import { findOcr } from './ocr/languages.ts'
import type { FileStore } from './ports/file-store.ts'
import { engines } from './search/engines/registry.ts'
import { openPasswords } from './users/passwords.ts'

export interface OpenOptions {
  /** `configured`: migrates if database.auto_migrate is set; `embedded`: also migrates the embedded database */
  migrate: 'always' | 'embedded' | 'configured' | 'never'
  /** creates a missing archive */
  creates?: boolean
  /** applies the configured statement timeout; false for long-running work */
  hasStatementTimeout?: boolean
  /** program of reader processes; default: the program beside this one */
  readerProgram?: string
  /** ends the wait for another migration, and starts no further migration: the reason is thrown */
  signal?: AbortSignal
  now?: () => Date
  monotonicMs?: () => number
}

export interface OpenedDatabase extends OwnedDatabase {
  /** true for the embedded PostgreSQL, false for an external one */
  isEmbedded: boolean
}

/** Opens an App, which must be closed. Throws ConfigError, NoData, PendingMigrations, NewerSchema, Busy. */
export async function openApp(config: Config, log: Log, options: OpenOptions): Promise<App & { close(): Promise<void> }> {
  const closers: (() => Promise<void>)[] = []
  const closeAll = async () => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    const creates = options.creates ?? false
    const database = await openConfiguredDatabase(config, log, { hasStatementTimeout: options.hasStatementTimeout ?? true, creates })
    closers.push(() => database.close())
    const { db } = database
    await migrateSchema(database, config, log, options)
    if (!creates) await requireFolder(config.data_dir)
    const storage = { ...config.storage, path: storeFolder(config) }
    const markers = await storeMarkers(config)
    await checkStoreMarker(db, markers, { creates })
    await claimStore(db, markers, config)
    await recordUse(db, storage.kind).catch((err) => log.warn({ err }, 'cannot record the use of the document store'))
    const { files, stores, close: closeStores } = await openStores({ ...config, storage }, db)
    closers.push(closeStores)
    const ocr = config.ocr.enabled
      ? await findOcr({ ...config.ocr, dataPath: config.ocr.data_path || join(config.data_dir, 'tessdata') })
      : null
    const readers = { log, program: options.readerProgram }
    const slots = config.worker.concurrency || availableParallelism()
    const reader = openConfiguredReader(config, 'reading', { ...readers, slots, ocr })
    const previewer = openConfiguredReader(config, 'previews', { ...readers, slots: 1, ocr: null })
    closers.push(() => reader.close())
    closers.push(() => previewer.close())
    const secret = await loadJwtSecret(config)
    const replicas = await openReplicas(config.database, log)
    const mailer = config.smtp.url === '' ? null : (await import('./mail/smtp.ts')).smtpMailer(config.smtp)
    closers.push(...[mailer, ...replicas.map(({ database }) => database)].map((opened) => async () => opened?.close()))
    const search = await engines[config.search.engine]({ config, db, database, log })
    const searchOf = (one: Replica) => (config.search.engine === 'postgres' ? engines.postgres({ config, log, ...one }) : search)
    return {
      config,
      log,
      db,
      reads: database.reads,
      replicas: await Promise.all(replicas.map(async (replica) => ({ ...replica, search: await searchOf(replica) }))),
      database,
      files,
      stores,
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
      close: closeAll,
    }
  } catch (error) {
    await closeAll()
    throw error
  }
}

/** The database and the document store alone, with any schema, for backup and restore. */
export interface Installation {
  /** with a resolved `storage.path` */
  readonly config: Config
  readonly log: Log
  readonly database: OpenedDatabase
  readonly files: FileStore
}

/** Opens both without migrating. They may belong to different installations. Throws ConfigError, NoData. */
export async function openInstallation(
  config: Config,
  log: Log,
  access: DatabaseAccess = {},
): Promise<Installation & { close(): Promise<void> }> {
  const storage = { ...config.storage, path: storeFolder(config) }
  const database = await openConfiguredDatabase(config, log, access)
  try {
    // Nothing is created while the database is down.
    await sql`select`.execute(database.db)
    if (!access.creates && storage.kind === 'disk') await requireFolder(storage.path)
    const settings = { ...config, storage }
    // A restore fills the primary store. Without a schema the secondary store cannot be recorded.
    const { files, close: closeStores } = access.creates ? await openPrimary(settings) : await openStores(settings, database.db)
    const close = () => closeStores().then(() => database.close())
    return { config: settings, log, database, files, close }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Returns whether there is a database to connect to. */
export async function hasData({ database, data_dir }: Config): Promise<boolean> {
  return database.url !== '' || (await import('./db/embedded/cluster.ts')).hasCluster(data_dir)
}

async function requireFolder(folder: string): Promise<void> {
  await access(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw new NoData(folder)
  })
}

export interface DatabaseAccess {
  /** applies the configured statement timeout; default: false */
  hasStatementTimeout?: boolean
  /** creates the embedded database if there is none */
  creates?: boolean
  /** accepts a database that a restore left unfinished */
  isRestore?: boolean
}

/** Connects to the configured database, or joins the embedded one. Throws ConfigError, NoData. */
export async function openConfiguredDatabase(config: Config, log: Log, options: DatabaseAccess): Promise<OpenedDatabase> {
  const database = await connectToDatabase(config, log, options)
  return closeOnFailure(
    options.isRestore ? Promise.resolve(database) : rejectUnfinishedRestore(database.db, config).then(() => database),
    database.close,
  )
}

async function connectToDatabase(
  config: Config,
  log: Log,
  { hasStatementTimeout = false, creates = false, isRestore = false }: DatabaseAccess,
): Promise<OpenedDatabase> {
  const { url, migration_url, pool_max, connect_timeout, statement_timeout } = config.database
  const statementTimeoutMs = hasStatementTimeout ? statement_timeout : 0
  const settings = { poolMax: pool_max, connectTimeoutMs: connect_timeout, statementTimeoutMs, log }
  if (url !== '') {
    const address = await loadAddress(config.database, url)
    const database = openDatabase({ ...settings, address })
    if (migration_url === '') return { ...database, asOwner: (work) => work(database), isEmbedded: false }
    const owned = openOwnedDatabase(database, { ...settings, address: { ...address, connectionString: migration_url } })
    return { ...(await closeOnFailure(owned, database.close)), isEmbedded: false }
  }
  const [{ joinEmbedded }, { openDataDir }] = await Promise.all([import('./db/embedded/embedded.ts'), import('./db/embedded/account.ts')])
  if (!(await hasData(config))) {
    if (!creates) throw new NoData(config.data_dir)
    if (isRestore) await claimDataFolder(await openDataDir(config.data_dir))
    else await rejectForeignStore(config)
  }
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

/** Throws ConfigError if the document store has files but there is no database. */
async function rejectForeignStore(config: Config): Promise<void> {
  const markers = await storeMarkers(config)
  if ((await readStoreId(markers)) !== '')
    throw new ConfigError([
      `the document store ${markers.location} belongs to a database, and there is none in ${config.data_dir}: is DATABASE_URL missing?`,
    ])
}

async function migrateSchema(database: OpenedDatabase, config: Config, log: Log, { migrate: when, signal }: OpenOptions): Promise<void> {
  const pending = await pendingUpTo(database.db)
  if (pending.length === 0) return
  const isAllowed = when === 'always' || (when === 'embedded' && database.isEmbedded) || (when !== 'never' && config.database.auto_migrate)
  if (!isAllowed) throw new PendingMigrations(pending)
  await database.asOwner((owner) =>
    migrate(owner, { lockTimeoutMs: config.database.lock_timeout, signal }, (name) => log.info({ migration: name }, 'migrated')),
  )
}

/** Loads the configured secret, or the generated one. */
async function loadJwtSecret({ auth, data_dir }: Config): Promise<Uint8Array> {
  if (auth.jwt_secret !== '') return Buffer.from(auth.jwt_secret)
  const path = join(data_dir, 'jwt_secret')
  const secret = await readOrCreateSecret(path, 48)
  if (secret.length < 32)
    throw new ConfigError([`${path}: ${secret.length} characters; at least 32 are needed. Remove the file to generate a new one`])
  return Buffer.from(secret)
}
