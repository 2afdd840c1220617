/** Indexes documents in Meilisearch. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import { batchesOf, loadDocuments } from '../../indexed-documents.ts'
import type { Entry } from '../entries.ts'
import { entryOf } from './document.ts'
import type { Server } from './server.ts'

export interface Target {
  readonly db: Db
  readonly server: Server
  /** documents per request */
  readonly batchSize: number
}

/** Maximum size of the texts of a request. Meilisearch accepts 100 MB; words are sent about twice. */
const maxBytes = 10_000_000

/** Sends documents to the index, and removes deleted ones. Returns the ids of the tasks to wait for. */
export async function send({ db, server, batchSize }: Target, index: string, documentIds: readonly string[]): Promise<number[]> {
  const ids = [...new Set(documentIds)].sort()
  const tasks: number[] = []
  for (const batch of await batchesOf(db, ids, { documents: batchSize, bytes: maxBytes }))
    tasks.push(...(await sendBatch(db, server, index, batch)))
  return tasks
}

async function sendBatch(db: Db, server: Server, index: string, ids: readonly string[]): Promise<number[]> {
  return db.transaction().execute(async (trx) => {
    // Reads a document under its lock, which lasts until the task is enqueued: the last task has the latest version.
    await sql`select pg_advisory_xact_lock(hashtext('dms meilisearch'), hashtext(id)) from unnest(${ids}::text[]) id`.execute(trx)
    const entries: Entry[] = []
    for (const document of await loadDocuments(trx, ids)) entries.push(await entryOf(document))
    const present = new Set(entries.map(({ id }) => id))
    const deletedIds = ids.filter((id) => !present.has(id))
    const tasks: number[] = []
    if (entries.length > 0) tasks.push(await server.enqueue((client) => client.index(index).addDocuments(entries)))
    if (deletedIds.length > 0) tasks.push(await server.enqueue((client) => client.index(index).deleteDocuments(deletedIds)))
    return tasks
  })
}
