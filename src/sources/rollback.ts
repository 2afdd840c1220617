/** Rollback of a source: its documents return to the versions of an earlier moment. Repeatable: a second rollback to the same moment changes nothing. */
import { sql } from 'kysely'
import type { z } from 'zod'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { afterMillisecond } from '../db/clock.ts'
import { Busy, withLock } from '../db/lock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { markSourceRestored } from '../documents/source-documents.ts'
import { hasTrash, moveToTrash, undelete } from '../documents/trash/trash.ts'
import { restoreVersions } from '../documents/versions/versions.ts'
import { AppError } from '../errors.ts'
import { nilId } from '../id.ts'
import { get } from './sources.ts'
import { cancelSyncs } from './sync/cancel-syncs.ts'
import * as runs from './sync/run-records.ts'
import type { RollbackAnswer } from './view.ts'

/** Documents per transaction. */
const batchSize = 500
/** Documents that the answer names. All are counted. */
const maxItems = 10_000

export type Rollback = z.infer<typeof RollbackAnswer>
type RollbackItem = Rollback['items'][number]

interface Candidate extends Omit<RollbackItem, 'action' | 'error'> {
  sha256: string
  created_at: Date
  deleted_at: Date | null
  /** metadata, which users may change */
  source_removed_at: string | null
  /** version of that moment; null: none is stored */
  number: number | null
  version_sha256: string | null
}

/** Changes that roll one document back. */
interface Steps {
  isReplaced?: boolean
  isTrashed?: boolean
  isUndeleted?: boolean
  isUnmarked?: boolean
}

type Decision = Steps & { action: RollbackItem['action'] | 'unchanged'; error?: RollbackItem['error'] }

interface Decided {
  candidate: Candidate
  decision: Decision
}

/**
 * Takes the documents of a source back to their versions of `before`. Later documents move to the trash, documents trashed since return. Without a
 * trash, later documents stay and count as failed. Cancels a waiting sync. Changes nothing for a time in the future. Throws SOURCE_NOT_FOUND, SOURCE_SYNC_IN_PROGRESS.
 */
export async function rollback(
  app: App,
  actor: Actor,
  id: string,
  { before, dry_run }: { before: Date; dry_run: boolean },
): Promise<Rollback> {
  await get(app, actor, id)
  const collector = collectItems()
  if (dry_run) {
    await visitAll(async (after) => {
      const decided = decideAll(app, await listCandidates(app.db, id, before, { after, limit: batchSize }), before)
      collector.add(decided)
      return decided
    })
    return collector.result()
  }
  const work = async () => {
    await app.db.transaction().execute((trx) => cancelSyncs(trx, id))
    const rollBack = openRollback(app, actor, id, before)
    await visitAll(async (after) => {
      const decided = await rollBack(after)
      collector.add(decided)
      return decided
    })
  }
  try {
    await withLock(app.database, runs.lockName(id), 0, work, { label: 'sources rollback' })
  } catch (error) {
    if (!(error instanceof Busy)) throw error
    throw new AppError('SOURCE_SYNC_IN_PROGRESS', { job_id: (await runs.findLatestRun(app.db, id))?.id })
  }
  return collector.result()
}

/** Calls `visit` with the last id of each batch until it returns none. */
async function visitAll(visit: (after: string) => Promise<Decided[]>): Promise<void> {
  for (let last: string | undefined = nilId; last !== undefined; ) last = (await visit(last)).at(-1)?.candidate.document_id
}

interface Page {
  after: string
  limit: number
  isLocked?: boolean
}

/** Lists the next documents of the source with their versions at that time, including the trash. With `isLocked`, locks them. */
async function listCandidates(db: Db, sourceId: string, before: Date, { after, limit, isLocked = false }: Page): Promise<Candidate[]> {
  const { rows } = await sql<Candidate>`
    with page as materialized (
      select id, title, filename, source_path, sha256, created_at, deleted_at, metadata ->> 'source_removed_at' as source_removed_at
      from documents where source_id = ${sourceId} and id > ${after} order by id limit ${limit} ${isLocked ? sql`for no key update` : sql``}
    )
    select page.id as document_id, title, filename, source_path as path, page.sha256, page.created_at, deleted_at, source_removed_at,
      number, version.sha256 as version_sha256
    from page left join lateral (
      select number, sha256 from document_versions where document_id = page.id and created_at < ${afterMillisecond(before)} order by number desc limit 1
    ) version on true
    order by page.id`.execute(db)
  return rows
}

function decide(app: App, candidate: Candidate, before: Date): Decision {
  const { created_at, deleted_at, number, sha256, version_sha256, source_removed_at } = candidate
  if (created_at > before) {
    if (deleted_at !== null) return { action: 'unchanged' }
    // The next maintenance would destroy it.
    return hasTrash(app) ? { action: 'trashed', isTrashed: true } : failure('NO_TRASH', noTrashMessage)
  }
  if (deleted_at !== null && deleted_at <= before) return { action: 'unchanged' }
  if (number === null) return failure('VERSION_NOT_FOUND', 'No version of that time is stored.')
  const isReplaced = version_sha256 !== sha256
  const isUndeleted = deleted_at !== null
  // The comparison is also false for an invalid date.
  const isUnmarked = source_removed_at !== null && new Date(source_removed_at) > before
  return { action: isReplaced || isUndeleted || isUnmarked ? 'restored' : 'unchanged', isReplaced, isUndeleted, isUnmarked }
}

const noTrashMessage = 'There is no trash for this document. Set documents.trash_days, restart dms, then roll back again.'
const failure = (code: string, message: string): Decision => ({ action: 'failed', error: { code, message } })

const decideAll = (app: App, candidates: readonly Candidate[], before: Date): Decided[] =>
  candidates.map((candidate) => ({ candidate, decision: decide(app, candidate, before) }))

/** Returns a function that rolls back the next documents in one transaction. If one of them fails, rolls back each in a separate transaction. */
function openRollback(app: App, actor: Actor, id: string, before: Date): (after: string) => Promise<Decided[]> {
  let single = 0
  const run = (page: Page) =>
    app.db.transaction().execute(async (trx) => {
      const decided = decideAll(app, await listCandidates(trx, id, before, { ...page, isLocked: true }), before)
      await apply(app, trx, actor, decided)
      return decided
    })
  return async (after) => {
    if (single === 0)
      try {
        return await run({ after, limit: batchSize })
      } catch {
        single = batchSize
      }
    single--
    const page = { after, limit: 1 }
    try {
      return await run(page)
    } catch (cause) {
      const [candidate] = await listCandidates(app.db, id, before, page)
      if (!candidate) return []
      if (!(cause instanceof AppError)) app.log.error({ err: cause, document_id: candidate.document_id }, 'rollback of a document failed')
      const { code, message } = cause instanceof AppError ? cause : new AppError('INTERNAL_ERROR')
      return [{ candidate, decision: failure(code, message) }]
    }
  }
}

async function apply(app: App, trx: Trx, actor: Actor, decided: readonly Decided[]): Promise<void> {
  const idsOf = (step: keyof Steps) => decided.flatMap(({ candidate, decision }) => (decision[step] ? [candidate.document_id] : []))
  const versions = decided.flatMap(({ candidate: { document_id: id, number }, decision }) =>
    decision.isReplaced && number !== null ? [{ id, number }] : [],
  )
  await undelete(app, trx, idsOf('isUndeleted'))
  await restoreVersions(app, trx, actor, versions)
  await markSourceRestored(app, trx, idsOf('isUnmarked'))
  await moveToTrash(app, trx, actor.id, idsOf('isTrashed'))
}

/** Counts all documents, and keeps the first changed ones. */
function collectItems() {
  const counts = { restored: 0, trashed: 0, unchanged: 0, failed: 0 }
  const failed: RollbackItem[] = []
  const changed: RollbackItem[] = []
  return {
    add(decided: readonly Decided[]): void {
      for (const { candidate, decision } of decided) {
        const { action, error = null } = decision
        counts[action]++
        const list = action === 'failed' ? failed : changed
        if (action === 'unchanged' || list.length >= maxItems) continue
        const { document_id, title, filename, path } = candidate
        list.push({ document_id, title, filename, path, action, error })
      }
    },
    result(): Rollback {
      const items = [...failed, ...changed].slice(0, maxItems)
      return { ...counts, items, has_more: items.length < counts.failed + counts.restored + counts.trashed }
    },
  }
}
