/** Purge of the trash: on request, and of documents past `documents.trash_days`. Works in batches and can be repeated after a crash. */
import { type RawBuilder, sql } from 'kysely'
import { type Actor, operator } from '../../actor.ts'
import type { App } from '../../app.ts'
import { secondsAgo } from '../../db/clock.ts'
import type { Db, Trx } from '../../db/pool.ts'
import type { DeletionOptions } from '../../db/statements.ts'
import { isRetained } from '../retention.ts'
import { destroyDocuments, type Reason } from './destroy.ts'
import { hasTrash, isInTrash } from './trash.ts'

/** The actor of maintenance in the audit log. */
export const maintenanceActor: Actor = { ...operator, via: 'maintenance' }

/** Documents destroyed by one transaction. */
const batchSize = 200
const daySeconds = 86_400

/**
 * Destroys the documents in the trash that the actor can see. Yields the number of documents after each batch and returns the result. Keeps documents
 * under retention or hold, and documents deleted meanwhile.
 */
export async function* emptyTrash(
  app: App,
  actor: Actor,
  owner: string | undefined,
): AsyncGenerator<number, { purged: number; retained: number }> {
  // Not the time of now: after the clock was set back, the trash has documents of later times. As text, because a Date has no microseconds.
  const { rows } = await sql<{ last: string | null }>`
    select max(deleted_at)::text as last from documents where ${isInTrash(actor, owner)}`.execute(app.db)
  const trash = sql<boolean>`(${isInTrash(actor, owner)} and deleted_at <= ${rows[0]?.last}::timestamptz)`
  let purged = 0
  for await (const count of destroyBatches(app, actor, trash, 'trash_emptied')) {
    purged += count
    yield count
  }
  return { purged, retained: await countTrash(app.db, sql<boolean>`(${trash} and ${isRetained})`) }
}

/** Returns what emptyTrash() would do now. */
export async function planEmptying(app: App, actor: Actor, owner: string | undefined): Promise<{ purged: number; retained: number }> {
  const { rows } = await sql<{ purged: number; retained: number }>`
    select count(*) filter (where not ${isRetained}) as purged, count(*) filter (where ${isRetained}) as retained
    from documents where ${isInTrash(actor, owner)}`.execute(app.db)
  return rows[0]!
}

/**
 * Destroys the documents whose time in the trash has passed. Returns their number. WORM without a trash destroys none: a document that is in the
 * trash all the same had no time there.
 */
export async function purgeExpired(app: App, { isDryRun = false, signal }: DeletionOptions = {}): Promise<number> {
  if (app.config.documents.worm && !hasTrash(app)) return 0
  const expired = sql<boolean>`(deleted_at is not null and deleted_at <= ${secondsAgo(app.config.documents.trash_days * daySeconds)})`
  if (isDryRun) return countTrash(app.db, sql<boolean>`(${expired} and not ${isRetained})`)
  let purged = 0
  for await (const count of destroyBatches(app, maintenanceActor, expired, 'trash_expired')) {
    purged += count
    if (signal?.aborted) break
  }
  return purged
}

/** Destroys the documents that satisfy a condition. Yields the number of each batch. Skips documents under retention or hold. */
async function* destroyBatches(app: App, actor: Actor, trash: RawBuilder<boolean>, reason: Reason): AsyncGenerator<number> {
  for (let last: TrashPosition | null = null; ; ) {
    const batch: TrashPosition[] = await loadBatch(app.db, trash, last)
    if (batch.length === 0) return
    yield await app.db.transaction().execute(async (trx) => {
      const ids = await lockDestroyable(
        trx,
        trash,
        batch.map(({ id }) => id),
      )
      return (await destroyDocuments(app, trx, actor, ids, reason)).length
    })
    last = batch.at(-1) ?? null
  }
}

interface TrashPosition {
  id: string
  /** as text, because a Date has no microseconds */
  at: string
}

async function loadBatch(db: Db, trash: RawBuilder<boolean>, after: TrashPosition | null): Promise<TrashPosition[]> {
  const { rows } = await sql<TrashPosition>`
    select id, deleted_at::text as at from documents
    where ${trash} and ${after ? sql`(deleted_at, id) < (${after.at}::timestamptz, ${after.id}::uuid)` : sql`true`}
    order by deleted_at desc, id desc limit ${batchSize}`.execute(db)
  return rows
}

/** Locks the documents that are still in the trash. Leaves out documents under retention or hold. Nobody can retain a document after it is locked. */
async function lockDestroyable(trx: Trx, trash: RawBuilder<boolean>, ids: readonly string[]): Promise<string[]> {
  await sql`select from documents where id = any(${ids}::uuid[]) order by id for update`.execute(trx)
  const { rows } = await sql<{ id: string }>`
    select id from documents where id = any(${ids}::uuid[]) and ${trash} and not ${isRetained}`.execute(trx)
  return rows.map(({ id }) => id)
}

async function countTrash(db: Db, trash: RawBuilder<boolean>): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from documents where ${trash}`.execute(db)
  return rows[0]?.count ?? 0
}
