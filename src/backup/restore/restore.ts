/** Puts a backup into an empty place, whole or not at all: one transaction for all tables, and a folder that nobody else takes until it has ended. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { withLock } from '../../db/lock.ts'
import * as migrations from '../../db/migrate.ts'
import { AppError } from '../../errors.ts'
import * as filling from '../../files/restore-marker.ts'
import type { Places } from '../../open-app.ts'
import type { Source } from '../source.ts'
import { type Outcome, outcomeOf, storeIdOf } from './commit-outcome.ts'
import { CommitUnanswered, type FillOptions, fill, generationOf, type Restored } from './fill.ts'
import { removeWritten } from './put-files.ts'

export interface RestoreOptions extends FillOptions {
  /** milliseconds to wait for a migrator or another restore before Busy is thrown */
  lockTimeout: number
  /** milliseconds to ask whether the rows were committed, where the connection was lost at that moment */
  outcomeTimeoutMs?: number
}

const defaultOutcomeTimeoutMs = 60_000

/**
 * Throws AppError CONFLICT where the place is not empty, BackupDamaged, NewerSchema, Busy; then everything is as it was before. Throws AppError
 * SERVICE_UNAVAILABLE where nobody can tell whether the rows were committed; then rows and files stay, and the next restore finds out.
 */
export function restore(places: Places, source: Source, options: RestoreOptions): Promise<Restored> {
  return places.database.asOwner((owner) => restoreAsOwner({ ...places, database: { ...places.database, ...owner } }, source, options))
}

function restoreAsOwner(places: Places, source: Source, options: RestoreOptions): Promise<Restored> {
  const { database } = places
  const timeoutMs = options.outcomeTimeoutMs ?? defaultOutcomeTimeoutMs
  return withLock(database, 'restore', options.lockTimeout, () =>
    withLock(database, migrations.migrateLock, options.lockTimeout, async () => {
      const folder = folderOf(places)
      if (folder) await endEarlier(places, folder, timeoutMs)
      await refuseFull(places)
      const storeId = randomUUID()
      if (folder) await filling.beginFilling(folder, { store_id: storeId, commit: null })
      const restored = await fill(places, source, storeId, folder, options).catch(async (error: unknown) => {
        const outcome = error instanceof CommitUnanswered ? await outcomeOf(database, storeId, error.commit, timeoutMs) : 'rolled back'
        if (outcome === 'committed') return (error as CommitUnanswered).restored
        if (outcome === 'unknown') throw unknownOutcome(places, error)
        await undo(places, folder, storeId)
        if (!(error instanceof CommitUnanswered)) throw error
        await error.undo()
        throw error.cause
      })
      if (folder) await filling.endFilling(folder)
      return restored
    }),
  )
}

/** Removes what this restore wrote, and nothing else. */
async function undo(places: Places, folder: string | null, storeId: string): Promise<void> {
  await removeWritten(places.files, generationOf(storeId))
  if (folder) await filling.giveUpFilling(folder)
}

/** Brings a restore to its end that was killed, or did not hear whether its rows were committed. Throws AppError where it cannot, or need not be run again. */
async function endEarlier(places: Places, folder: string, timeoutMs: number): Promise<void> {
  const claim = await filling.claimOf(folder)
  if (!claim) return
  const outcome: Outcome = claim.commit ? await outcomeOf(places.database, claim.store_id, claim.commit, timeoutMs) : 'rolled back'
  if (outcome === 'unknown') throw unknownOutcome(places, null)
  if (outcome === 'rolled back') return undo(places, folder, claim.store_id)
  await filling.endFilling(folder)
  throw Object.assign(
    new AppError('CONFLICT', { path: folder }, 'the restore before this one was committed after all: the place is complete'),
    {
      fix: 'dms search reindex, then dms check',
    },
  )
}

function unknownOutcome({ config }: Places, cause: unknown): Error {
  const path = folderOf({ config }) ?? ''
  const message = `whether the rows of the restore were committed is not known: the database ${cause ? 'stopped answering at that moment' : 'says nothing of it'}. The files in ${path} stay: they are needed if the rows are there`
  return Object.assign(new AppError('SERVICE_UNAVAILABLE', { path }, message), {
    cause,
    fix: `once that database answers, run the same dms restore again: it finds out. If the database is lost for good, remove ${path}`,
  })
}

/** What the database is called that would be filled. */
export async function databaseName({ database }: Pick<Places, 'database'>): Promise<string> {
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(database.db)
  return rows[0]?.name ?? ''
}

/** Throws AppError CONFLICT where there are people, documents or files already; what a restore left that has not ended does not count. */
export async function refuseFull(places: Places): Promise<void> {
  const { db } = places.database
  const full = (what: string, fix: string) =>
    Object.assign(new AppError('CONFLICT', {}, `${what}; a backup is restored into an empty place only`), { fix })
  const states = await migrations.status(db)
  if (states.some(({ applied_at }) => applied_at !== null)) {
    for (const table of ['users', 'stored_files'] as const) {
      const { rows } = await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)
      if (!rows[0]?.found) continue
      const some = await sql`select from ${sql.table(table)} limit 1`.execute(db)
      if (some.rows.length > 0)
        throw full(
          `the database holds ${table === 'users' ? 'users' : 'documents'}`,
          'make a new database, or pass --data-dir or --to-database',
        )
    }
  }
  const folder = folderOf(places)
  if (folder && (await filling.claimOf(folder))) return
  for await (const _ of places.files.list()) throw full('the document store holds files', 'empty it, or pass --files-to')
  if (folder && (await filling.ownerOf(folder)) !== '' && (await currentStoreId(places)) === null)
    throw full(`${folder} belongs to another database`, 'pass --files-to')
}

async function currentStoreId({ database }: Places): Promise<string | null> {
  const client = await database.connect('dms restore')
  return storeIdOf(client).finally(() => client.end())
}

/** The folder of a store on a disk. */
const folderOf = ({ config }: Pick<Places, 'config'>): string | null => (config.storage.kind === 'disk' ? config.storage.path : null)
