/** Restores a backup into an empty database and store, completely or not at all. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { readDatabaseId } from '../../db/database-id.ts'
import { database as embeddedDatabase } from '../../db/embedded/roles.ts'
import { withLock } from '../../db/lock.ts'
import { type LockWait, loadStates, withMigrateLock } from '../../db/migrate.ts'
import type { Database } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { folderMarkers } from '../../files/folder-markers.ts'
import { openPrimary } from '../../files/open-stores.ts'
import * as restoreMarker from '../../files/restore-marker.ts'
import { storeMarkers } from '../../files/stores/registry.ts'
import { dms } from '../../log/fix.ts'
import type { Installation } from '../../open-app.ts'
import type { Markers } from '../../ports/file-store.ts'
import type { BackupSource } from '../backup-source.ts'
import { type CommitOutcome, readStoreId, waitForCommitOutcome } from './commit-outcome.ts'
import { removeGeneration } from './file-writer.ts'
import { CommitUnanswered, type LoadOptions, loadBackup, type RestoreResult, toGeneration } from './load-backup.ts'
import { assertNoRows, notEmptyError } from './prepare-schema.ts'
import type { RestoreTarget } from './restore-target.ts'
import { findInterrupted, openStoreClaim, type StoreClaim } from './store-claim.ts'

export interface RestoreOptions extends LoadOptions {
  /** maximum wait for a migration or another restore, then Busy */
  lockTimeoutMs: number
  /** how long to poll for the outcome when the connection is lost during COMMIT */
  outcomeTimeoutMs?: number
}

const defaultOutcomeTimeoutMs = 60_000

/**
 * Restores a backup. Throws AppError CONFLICT for a destination that is not empty, BackupDamaged, NewerSchema or Busy; then nothing has
 * changed. Throws AppError SERVICE_UNAVAILABLE if the outcome of COMMIT is unknown; rows and files stay, and the next restore finds out.
 */
export function restoreBackup(installation: Installation, source: BackupSource, options: RestoreOptions): Promise<RestoreResult> {
  return installation.database.asOwner((owner) =>
    restoreAsOwner({ ...installation, database: { ...installation.database, ...owner } }, source, options),
  )
}

function restoreAsOwner(installation: Installation, source: BackupSource, options: RestoreOptions): Promise<RestoreResult> {
  const { database } = installation
  const { lockTimeoutMs, signal, outcomeTimeoutMs = defaultOutcomeTimeoutMs } = options
  const restore = async (): Promise<RestoreResult> => {
    const markers = await storeMarkers(installation.config)
    const databaseId = await readDatabaseId(database.db)
    const interrupted = await findInterrupted(markers, databaseId, signal)
    if (interrupted) await resolveInterruptedRestore(installation, markers, interrupted, outcomeTimeoutMs)
    await assertEmpty(installation)
    const storeId = randomUUID()
    const claim = await openStoreClaim(markers, {
      storeId,
      database: databaseId,
      interrupted,
      assertEmpty: () => assertEmpty(installation),
    })
    // An open store takes the new marker for that of another volume.
    const store = await openPrimary(installation.config, storeId)
    try {
      const claimed = { ...installation, files: store.files }
      const restored = await loadOrUndo(claimed, source, storeId, { markers, claim }, options)
      await endClaims(installation, markers)
      return restored
    } finally {
      await claim.end().catch(() => {})
      await store.close()
    }
  }
  return withRestoreLocks(database, { lockTimeoutMs, signal }, restore)
}

/** Runs `work` while no other process restores into the database or changes its schema. Throws Busy (after `wait.lockTimeoutMs`). */
export const withRestoreLocks = <T>(database: Pick<Database, 'connect'>, wait: LockWait, work: () => Promise<T>): Promise<T> =>
  withLock(database, 'restore', wait.lockTimeoutMs, () => withMigrateLock(database, wait, work), { signal: wait.signal })

/** Loads a backup into a claimed store. Removes its files after an error, unless the rows may have been committed. */
async function loadOrUndo(
  installation: Installation,
  source: BackupSource,
  storeId: string,
  { markers, claim }: { markers: Markers; claim: StoreClaim },
  options: RestoreOptions,
): Promise<RestoreResult> {
  const { database } = installation
  try {
    return await loadBackup(installation, source, storeId, claim, options)
  } catch (error) {
    const timeoutMs = options.outcomeTimeoutMs ?? defaultOutcomeTimeoutMs
    const outcome =
      error instanceof CommitUnanswered ? await waitForCommitOutcome(database, storeId, error.commit, timeoutMs) : 'rolled back'
    if (outcome === 'committed') return (error as CommitUnanswered).restored
    if (outcome === 'unknown') throw unknownOutcomeError(markers, error)
    if (await claim.end()) await undoRestore(installation, markers, storeId)
    else await removeFiles(installation.config, storeId).catch(() => {})
    if (!(error instanceof CommitUnanswered)) throw error
    await error.removeSecrets()
    throw error.cause
  }
}

/** Removes the files of this restore. Keeps its claim, because a server would take the folder for a new archive. */
async function undoRestore(installation: Installation, markers: Markers, storeId: string): Promise<void> {
  await removeGeneration(installation.files, toGeneration(storeId))
  await restoreMarker.writeClaim(markers, { store_id: storeId, commit: null })
}

/** Removes the files of this restore from a store that another restore has taken meanwhile. */
async function removeFiles(config: Installation['config'], storeId: string): Promise<void> {
  const store = await openPrimary(config)
  await removeGeneration(store.files, toGeneration(storeId)).finally(() => store.close())
}

async function endClaims({ config }: Installation, markers: Markers): Promise<void> {
  for (const claimed of [folderMarkers(config.data_dir), markers]) await restoreMarker.endRestore(claimed)
}

/** Completes or undoes an interrupted restore. Throws AppError if the outcome is unknown or the restore turns out to be complete. */
async function resolveInterruptedRestore(
  installation: Installation,
  markers: Markers,
  interrupted: restoreMarker.Claim,
  timeoutMs: number,
): Promise<void> {
  const outcome: CommitOutcome = interrupted.commit
    ? await waitForCommitOutcome(installation.database, interrupted.store_id, interrupted.commit, timeoutMs)
    : 'rolled back'
  if (outcome === 'unknown') throw unknownOutcomeError(markers, null)
  if (outcome === 'rolled back') return undoRestore(installation, markers, interrupted.store_id)
  await endClaims(installation, markers)
  throw Object.assign(new AppError('CONFLICT', { path: markers.location }, 'the interrupted restore had been committed: it is complete'), {
    fix: [dms`search reindex`, ', then ', dms`check`],
  })
}

function unknownOutcomeError({ location: path }: Markers, cause: unknown): Error {
  const message = `whether the rows of the restore were committed is not known: the database ${cause ? 'stopped answering at that moment' : 'says nothing of it'}. The files in ${path} stay: they are needed if the rows are there`
  return Object.assign(new AppError('SERVICE_UNAVAILABLE', { path }, message), {
    cause,
    fix: `once that database answers, run the same dms restore again: it finds out. If the database is lost for good, remove ${path}`,
  })
}

/** Returns the name of the database. It may not exist yet. */
export async function readDatabaseName({ database }: Pick<RestoreTarget, 'database'>): Promise<string> {
  if (!database) return embeddedDatabase
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(database.db)
  return rows[0]?.name ?? ''
}

/** Throws AppError CONFLICT if users, documents or files exist. Ignores the remains of an interrupted restore. */
export async function assertEmpty(target: RestoreTarget): Promise<void> {
  const db = target.database?.db
  const states = db ? await loadStates(db) : []
  if (db && states.some(({ applied_at }) => applied_at !== null)) await assertNoRows(db)
  const markers = await storeMarkers(target.config)
  const claim = await restoreMarker.readClaim(markers)
  for await (const { address } of target.files.list())
    if (!claim || !address.endsWith(`.${toGeneration(claim.store_id)}`))
      throw notEmptyError('the document store holds files', 'empty it, or pass --files-to')
  if (!claim && (await restoreMarker.readStoreId(markers)) !== '' && (await readCurrentStoreId(target)) === null)
    throw notEmptyError(`${markers.location} belongs to another database`, 'pass --files-to')
}

async function readCurrentStoreId({ database }: RestoreTarget): Promise<string | null> {
  if (!database) return null
  const client = await database.connect('dms restore')
  return readStoreId(client).finally(() => client.end())
}
