/** Which labels a document carries. */
import type { Db, Trx } from '../db/db.ts'
import { invalid } from '../errors.ts'
import { isId } from '../http/input.ts'

/** Ids of labels given by id or name (no case), in their order, each once. Throws VALIDATION_ERROR naming `field` for one that does not exist. */
export async function labelIds(db: Db, given: readonly string[], field = 'labels'): Promise<string[]> {
  if (given.length === 0) return []
  const keys = given.map((label) => label.toLowerCase())
  // Inside a transaction they stay until its end: a label that is deleted meanwhile waits for us.
  const found = await db
    .selectFrom('labels')
    .select(['id', 'name_key'])
    .forKeyShare()
    .where((eb) => eb.or([eb('id', 'in', [...given.filter(isId), noId]), eb('name_key', 'in', keys)]))
    .execute()
  const ids = keys.map((key, index) => {
    const label = found.find(({ id }) => id === key) ?? found.find(({ name_key }) => name_key === key)
    if (!label) throw invalid(field, `no label ${JSON.stringify(given[index])}`)
    return label.id
  })
  return [...new Set(ids)]
}

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
