/** Deletes users. Their documents are deleted or transferred to another user. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { appendWith } from '../audit/audit.ts'
import type { Trx } from '../db/pool.ts'
import { allowLongStatements } from '../db/statements.ts'
import * as documents from '../documents/documents.ts'
import { assertDeletable, assertNotWorm } from '../documents/retention.ts'
import { deleteDocuments, destroyDocuments } from '../documents/trash/destroy.ts'
import { AppError, invalid } from '../errors.ts'
import * as labels from '../labels/labels.ts'
import * as sharedLinks from '../shared-links/shared-links.ts'
import { slicesOf } from '../slices.ts'
import * as sources from '../sources/sources.ts'
import * as users from './users.ts'

export interface Removal {
  /** fate of the user's documents */
  documents?: 'delete' | 'transfer' | undefined
  /** recipient: user name, e-mail address or id */
  to?: string | undefined
}

/** Documents destroyed by one transaction. */
const batchSize = 500

/**
 * Deletes a user. Throws USER_NOT_FOUND, RETENTION, VALIDATION_ERROR, CONFLICT for the last active admin or documents without a `removal`. Destroys
 * many documents in batches, and can be repeated after a crash.
 */
export async function deleteUser(app: App, actor: Actor, id: string, removal: Removal): Promise<void> {
  if (removal.to !== undefined && removal.documents !== 'transfer') throw invalid('to', 'only with documents=transfer')
  if (removal.documents === 'delete') await destroyMany(app, actor, id)
  await app.db.transaction().execute(async (trx) => {
    await allowLongStatements(trx)
    const recipient = await lockDeletion(trx, id, removal)
    await sources.deleteSyncs(trx, id)
    const isDeletion = removal.documents === 'delete'
    await labels.lockCreated(trx, id)
    // Every transaction locks documents before users: two of them cannot deadlock.
    await documents.lockOwned(trx, id, { isDeletion })
    // From here on uploads of this user wait; afterwards they find no owner.
    const user = await trx.selectFrom('users').select('id').where('id', '=', id).forUpdate().executeTakeFirst()
    if (!user) throw new AppError('USER_NOT_FOUND')
    await users.refuseLastAdmin(trx, id)
    const owned = isDeletion ? await documents.lockOwned(trx, id, { isDeletion }) : []
    const { entries } = await deleteDocuments(app, trx, actor, owned, 'user_deleted')
    if (recipient !== null) {
      await documents.transferAll(trx, id, recipient)
      await sharedLinks.revokeTransferred(app, trx, id, recipient)
    } else await refuseOwner(trx, id)
    await trx.deleteFrom('users').where('id', '=', id).execute()
    await appendWith(trx, entries)
  })
}

/**
 * Destroys the documents of a user in batches if there are more than `batchSize`: while a transaction appends its audit entries, all others wait for
 * the log. First throws if a document cannot be destroyed, and disables the user, who could upload meanwhile.
 */
async function destroyMany(app: App, actor: Actor, id: string): Promise<void> {
  const ids = await documents.listOwned(app.db, id)
  if (ids.length <= batchSize) return
  await app.db.transaction().execute(async (trx) => {
    await allowLongStatements(trx)
    assertNotWorm(app)
    await assertDeletable(trx, ids)
    await users.applyChanges(app, trx, id, { disabled: true })
  })
  for (const batch of slicesOf(ids, batchSize))
    await app.db.transaction().execute(async (trx) => {
      // Another deletion may have transferred some of them.
      const owned = await documents.lockOwned(trx, id, { isDeletion: true, ids: batch })
      await destroyDocuments(app, trx, actor, owned, 'user_deleted')
    })
}

/** Waits for other deletions of the user or of the recipient, which lock rows of both. Returns the id of the recipient. Throws VALIDATION_ERROR. */
async function lockDeletion(trx: Trx, id: string, { documents, to }: Removal): Promise<string | null> {
  const recipient = documents === 'transfer' ? await findRecipient(trx, id, to) : null
  // In one order: two users who are deleted at once may be the recipients of each other.
  for (const userId of [id, ...(recipient === null ? [] : [recipient])].sort())
    await sql`select pg_advisory_xact_lock(hashtextextended(${`user deletion:${userId}`}, 0))`.execute(trx)
  // The recipient may have been deleted meanwhile.
  return recipient && findRecipient(trx, id, recipient)
}

/** Throws CONFLICT if the user owns documents, also in the trash. */
async function refuseOwner(trx: Trx, id: string): Promise<void> {
  const owned = await documents.countOwned(trx, id)
  if (owned.documents === 0) return
  const trash = owned.trashed === 0 ? '' : `, ${owned.trashed} of them in the trash`
  const count = owned.documents === 1 ? '1 document' : `${owned.documents} documents`
  const message = `The user owns ${count}${trash}. Pass documents=delete, or documents=transfer and to=USER.`
  throw new AppError('CONFLICT', { ...owned }, message)
}

async function findRecipient(trx: Trx, id: string, identifier = ''): Promise<string> {
  const user = await users.findByIdentifier(trx, identifier)
  if (!user || user.id === id) throw invalid('to', 'must be the name, email address or id of another user, who receives the documents')
  return user.id
}
