/** Labels: visible to all users, changed by their creators and by admins. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import { rejectDuplicateName, type Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { allowLongStatements } from '../db/statements.ts'
import { requireDocumentName } from '../documents/access.ts'
import * as documentLabels from '../documents/document-labels.ts'
import * as documents from '../documents/documents.ts'
import { retainAllLabelled, retainLabelled } from '../documents/retention.ts'
import { AppError, invalid } from '../errors.ts'
import { countRows, type FetchedPage, fetchSlice, fetchWhole, type WholeInput } from '../http/pages.ts'

export interface Label extends Omit<Row<'labels'>, 'name_key'> {
  /** number of documents with this label that the actor can see */
  document_count: number
  /** user name; null if the user was deleted */
  created_by: string | null
}

/** Lists of labels are separated by commas. 1.0.0-rc.1 allowed commas: these labels stay until they are renamed. */
export const namePattern = /^[^,]*$/
export const nameRule = 'must not contain a comma, which separates labels'

export interface Fields {
  name: string
  color: string
  description: string
  retention_days: number | null
}

export interface Changes extends Partial<Fields> {
  /** as read: an admin who sends `creator` back retains only documents of the creator */
  retention_scope?: Label['retention_scope'] | undefined
}

const byName = keyset({ by: 'labels.name_key', type: 'text', order: 'asc' }, { by: 'labels.id', type: 'id', order: 'asc' })

/** Returns all labels or one page of them, by name. Throws VALIDATION_ERROR for a cursor of another list. */
export const list = (app: App, actor: Actor, page: WholeInput = {}): Promise<FetchedPage<Label & RowWithCursorKey>> =>
  fetchWhole(page, byName, 'labels', (slice) => fetchSlice(selectLabels(app.db, actor), byName, slice))

/** Returns a label. Throws LABEL_NOT_FOUND. */
const get = (app: App, actor: Actor, id: string, trx: Trx | App['db'] = app.db): Promise<Label> =>
  selectLabels(trx, actor)
    .where('labels.id', '=', id)
    .executeTakeFirstOrThrow(() => new AppError('LABEL_NOT_FOUND'))

/** Returns the labels of a document by name. Throws DOCUMENT_NOT_FOUND. */
export async function listOfDocument(app: App, actor: Actor, documentId: string): Promise<Label[]> {
  await requireDocumentName(app.db, actor, documentId, { inTrash: true })
  return selectLabels(app.db, actor)
    .where('labels.id', 'in', (eb) => eb.selectFrom('document_labels').select('label_id').where('document_id', '=', documentId))
    .orderBy('labels.name_key')
    .execute()
}

/**
 * Replaces the labels of a document (ids or names). `ifMatch` is the If-Match header. Throws DOCUMENT_NOT_FOUND, VALIDATION_ERROR,
 * PRECONDITION_FAILED.
 */
export async function replaceOfDocument(
  app: App,
  actor: Actor,
  documentId: string,
  labels: readonly string[],
  ifMatch: string | null,
): Promise<Label[]> {
  await requireDocumentName(app.db, actor, documentId)
  const ids = await documentLabels.resolveLabelIds(app.db, labels, 'label_ids')
  await documents.update(app, actor, documentId, { labels: ids }, ifMatch)
  return listOfDocument(app, actor, documentId)
}

const duplicateMessage = 'A label with this name exists already.'

/** Limits the list of all labels, which everybody sees. Admins have no limit. */
const maxLabelsPerUser = 10_000

/** Creates a label. Throws DUPLICATE_RESOURCE if the name is taken, ignoring case, CONFLICT if a user has created too many. */
export async function create(app: App, actor: Actor, fields: Fields): Promise<Label> {
  if (!isAdmin(actor) && (await countRows(app.db.selectFrom('labels').where('created_by', '=', actor.id))) >= maxLabelsPerUser)
    throw new AppError('CONFLICT', {}, `A user can create at most ${maxLabelsPerUser} labels. Delete unused ones first.`)
  const at = app.now()
  const values = {
    ...fields,
    ...scopeOf(actor, fields.retention_days),
    name_key: documentLabels.labelKey(fields.name),
    created_by: actor.id,
    created_at: at,
    updated_at: at,
  }
  const { id } = await rejectDuplicateName(
    () => app.db.insertInto('labels').values(values).returning('id').executeTakeFirstOrThrow(),
    duplicateMessage,
  )
  return get(app, actor, id)
}

/**
 * Updates a label, reindexes its documents if the name changes, and retains them if the retention grows. A shorter retention has no effect on
 * documents: those that wait for the job of the longer one are retained first. Throws LABEL_NOT_FOUND, FORBIDDEN, DUPLICATE_RESOURCE.
 */
export async function update(
  app: App,
  actor: Actor,
  id: string,
  { retention_days: days, retention_scope, ...changes }: Changes,
): Promise<Label> {
  return app.db.transaction().execute(async (trx) => {
    await allowLongStatements(trx)
    const before = await lockChangeable(trx, actor, id)
    const { name = before.name } = changes
    // A client may send the label as it read it.
    const isRetentionAsRead = days === before.retention_days && retention_scope === before.retention_scope
    const retention_days = isRetentionAsRead ? undefined : days
    if (retention_days !== undefined) refusePolicyOfAdmin(actor, before)
    if (name !== before.name && !namePattern.test(name)) throw invalid('name', nameRule)
    if (retention_days !== undefined && (retention_days ?? 0) < (before.retention_days ?? 0)) await retainBeforeChange(app, trx, before)
    const isOfCreator = !isAdmin(actor) || (retention_scope === 'creator' && before.retention_scope !== 'all')
    const scope = scopeOf(actor, retention_days, isOfCreator)
    const changed = { ...changes, retention_days, ...scope, name_key: documentLabels.labelKey(name), updated_at: app.now() }
    await rejectDuplicateName(() => trx.updateTable('labels').set(changed).where('id', '=', id).execute(), duplicateMessage)
    if (name !== before.name) await documentLabels.reindexLabelled(trx, await documentLabels.listLabelled(trx, id))
    const owner_id = scope.retention_scope === 'all' ? null : before.created_by
    if (retention_days) await retainLabelled(app, trx, { label_id: id, days: retention_days, owner_id })
    return get(app, actor, id, trx)
  })
}

/** Deletes a label and removes it from all documents. Throws LABEL_NOT_FOUND, FORBIDDEN. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await allowLongStatements(trx)
    const label = await lockChangeable(trx, actor, id)
    refusePolicyOfAdmin(actor, label)
    await retainBeforeChange(app, trx, label)
    const labelled = await documentLabels.listLabelled(trx, id)
    await trx.deleteFrom('labels').where('id', '=', id).execute()
    // A change of a document also locks its labels before its index job: the two cannot deadlock.
    await documentLabels.reindexLabelled(trx, labelled)
  })
}

/**
 * Locks the labels that a user has created until the transaction ends. Call it before the documents of the user are locked: a change of a label
 * locks in the same order.
 */
export async function lockCreated(trx: Trx, userId: string): Promise<void> {
  await trx.selectFrom('labels').select('id').where('created_by', '=', userId).orderBy('id').forNoKeyUpdate().execute()
}

/** Assigns a label to all of the documents or to none. Returns the number of changes. Throws LABEL_NOT_FOUND, DOCUMENT_NOT_FOUND, CONFLICT. */
export async function assign(app: App, actor: Actor, id: string, documentIds: readonly string[]): Promise<number> {
  return app.db.transaction().execute(async (trx) => {
    await lockLabel(trx, id)
    return documentLabels.assignLabel(app, trx, actor, id, documentIds)
  })
}

/** Removes a label from all of the documents or from none. Returns the number of changes. Throws LABEL_NOT_FOUND, DOCUMENT_NOT_FOUND. */
export async function unassign(app: App, actor: Actor, id: string, documentIds: readonly string[]): Promise<number> {
  return app.db.transaction().execute(async (trx) => {
    await lockLabel(trx, id)
    return documentLabels.unassignLabel(app, trx, actor, id, documentIds)
  })
}

const selectLabels = (db: App['db'], actor: Actor) =>
  db
    .selectFrom('labels')
    .leftJoin('users', 'users.id', 'labels.created_by')
    .select([
      'labels.id',
      'labels.name',
      'labels.color',
      'labels.description',
      'labels.retention_days',
      'labels.retention_scope',
      'labels.created_at',
      'labels.updated_at',
    ])
    .select('users.username as created_by')
    .select((eb) =>
      eb
        .selectFrom('document_labels')
        .innerJoin('live_documents as documents', 'documents.id', 'document_labels.document_id')
        .whereRef('document_labels.label_id', '=', 'labels.id')
        .$if(!isAdmin(actor), (query) => query.where('documents.owner_id', '=', actor.id))
        .select(sql<number>`count(*)`.as('total'))
        .$asScalar()
        .as('document_count'),
    )
    .$castTo<Label>()

/** Locks the label against deletion until the transaction ends. Throws LABEL_NOT_FOUND. */
async function lockLabel(trx: Trx, id: string): Promise<void> {
  if (!(await trx.selectFrom('labels').select('id').where('id', '=', id).forKeyShare().executeTakeFirst()))
    throw new AppError('LABEL_NOT_FOUND')
}

/** Returns the scope of a retention that the actor sets. By default a user retains no document of others. */
const scopeOf = (actor: Actor, days: number | null | undefined, isOfCreator = !isAdmin(actor)) =>
  days === undefined ? {} : { retention_scope: days === null ? null : isOfCreator ? ('creator' as const) : ('all' as const) }

/** Retains the documents of a label by its present retention, before this is shortened or the label is deleted. */
async function retainBeforeChange(
  app: App,
  trx: Trx,
  { id, retention_days: days, retention_scope, created_by }: Row<'labels'>,
): Promise<void> {
  if (days) await retainAllLabelled(app, trx, { label_id: id, days, owner_id: retention_scope === 'all' ? null : created_by })
}

/** Throws FORBIDDEN if an admin has set the retention, and the actor is no admin. */
function refusePolicyOfAdmin(actor: Actor, { retention_scope }: Pick<Label, 'retention_scope'>): void {
  if (retention_scope === 'all' && !isAdmin(actor))
    throw new AppError('FORBIDDEN', {}, 'An admin has set the retention of this label: only an admin can change or delete it.')
}

async function lockChangeable(trx: Trx, actor: Actor, id: string): Promise<Row<'labels'>> {
  const label = await trx.selectFrom('labels').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (!label) throw new AppError('LABEL_NOT_FOUND')
  if (!isAdmin(actor) && label.created_by !== actor.id) throw new AppError('FORBIDDEN')
  return label
}
