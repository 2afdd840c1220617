/** What tables say of each other, of the queue and of the index. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import * as claims from '../jobs/leases.ts'
import { queueStranded, stranded } from '../ocr/stranded-documents.ts'
import { reindex } from '../search/search.ts'
import type { Found, Scope } from './check-result.ts'

/** Rows that are told of, of each question. */
const most = 10_000

/** Documents that call themselves the copy of one that has other bytes or another owner. */
export async function* references(app: App): AsyncGenerator<Found> {
  const { rows } = await sql<{ id: string; of: string }>`
    select copy.id, copy.duplicate_of as of from documents copy join documents first on first.id = copy.duplicate_of
    where first.id = copy.id or first.sha256 <> copy.sha256 limit ${most}`.execute(app.db)
  for (const { id, of } of rows) {
    yield {
      severity: 'warning',
      message: 'is marked as a copy of a document that it does not equal',
      document_id: id,
      actual: of,
      async repair() {
        await app.db.updateTable('documents').set({ duplicate_of: null }).where('id', '=', id).where('duplicate_of', '=', of).execute()
        return 'the mark was removed'
      },
    }
  }
}

/** Documents that wait to be read, or are said to be read, while nobody is going to. */
export async function* status(app: App): AsyncGenerator<Found> {
  for (const { id, status } of await stranded(app.db, most)) {
    yield {
      severity: 'error',
      message: `is ${status}, but no job reads it`,
      document_id: id,
      actual: status,
      repair: async () => ((await queueStranded(app, id)) ? 'queued to be read again' : 'a job reads it by now'),
    }
  }
}

/** Jobs whose worker fell silent long ago: any worker would have taken them over. */
export async function* queue(app: App): AsyncGenerator<Found> {
  for (const job of await claims.loadAbandoned(app.db, most)) {
    const { id, kind, worker, document_id, since } = job
    yield {
      severity: 'error',
      message: `the ${kind} job ${id} was left by ${worker ?? 'its worker'}, and no worker has taken it over: is one running?`,
      ...(document_id === null ? {} : { document_id }),
      actual: since,
      repair: async () => ((await claims.requeue(app.db, job)) ? 'queued again' : 'somebody has taken it over by now'),
    }
  }
}

/** Shared links that were used more often than they may be. */
export async function* links(app: App): AsyncGenerator<Found> {
  const { rows } = await sql<{ id: string; document_id: string; max_views: number; view_count: number }>`
    select id, document_id, max_views, view_count from shared_links where view_count > max_views order by id limit ${most}`.execute(app.db)
  for (const { id, document_id, max_views, view_count } of rows)
    yield { severity: 'error', message: `the shared link ${id} was used too often`, document_id, expected: max_views, actual: view_count }
}

/** Whether every document can be found. What the queue is about to index does not count. */
export async function* index(app: App, { signal }: Scope): AsyncGenerator<Found> {
  const { rows } = await sql<{ documents: number; waiting: number }>`
    select (select count(*) from documents) as documents,
      (select count(*) from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')) as waiting`.execute(app.db)
  const { documents = 0, waiting = 0 } = rows[0] ?? {}
  const { documents: indexed, missing, extra, outdated } = await app.search.status()
  if (missing + extra + outdated === 0 || waiting > 0) return
  yield {
    severity: 'warning',
    message: `the search index has ${indexed} documents of ${documents}: ${missing} missing, ${extra} too many, ${outdated} in an older form`,
    expected: documents,
    actual: indexed,
    async repair() {
      await reindex(app, { signal })
      return 'rebuilt'
    },
  }
}
