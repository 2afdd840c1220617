/** Which labels a document carries. */
import type { Db, Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { isId } from '../http/input.ts'

/** Ids of labels given by id or name (no case), in their order, each once. Throws VALIDATION_ERROR naming `field` for each that does not exist. */
export async function labelIds(db: Db, given: readonly string[], field = 'labels'): Promise<string[]> {
  if (given.length === 0) return []
  const keys = given.map(labelKey)
  // Inside a transaction they stay until its end: a label that is deleted meanwhile waits for us.
  const found = await db
    .selectFrom('labels')
    .select(['id', 'name_key'])
    .forKeyShare()
    .where((eb) => eb.or([eb('id', 'in', [...given.filter(isId), noId]), eb('name_key', 'in', keys)]))
    .execute()
  const byId = new Set(found.map(({ id }) => id))
  const byName = new Map(found.map(({ id, name_key }) => [name_key, id]))
  // What looks like an id is one, even where a label is called like that.
  const ids = keys.map((key) => (isId(key) ? (byId.has(key) ? key : undefined) : byName.get(key)))
  const issues = given.filter((_, index) => !ids[index]).map((label) => ({ path: field, message: `no label ${JSON.stringify(label)}` }))
  if (issues.length > 0) throw new AppError('VALIDATION_ERROR', { issues })
  return [...new Set(ids as string[])]
}

/** What two labels may not share: the name without its case, however its accents are written. */
export const labelKey = (name: string): string => name.normalize('NFC').toLowerCase()

/** Replaces the labels of a document. */
export async function setLabels(trx: Trx, documentId: string, ids: readonly string[]): Promise<void> {
  await trx.deleteFrom('document_labels').where('document_id', '=', documentId).execute()
  if (ids.length > 0)
    await trx
      .insertInto('document_labels')
      .values(ids.map((label_id) => ({ document_id: documentId, label_id })))
      .execute()
}

/** Never the id of anything: keeps an IN list from being empty. */
const noId = '00000000-0000-0000-0000-000000000000'
