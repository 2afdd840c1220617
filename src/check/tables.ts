/** Checks tables, the queue and the index. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { listStranded, requeueDocument } from '../documents/extraction/stranded-documents.ts'
import * as leases from '../jobs/leases.ts'
import { reindex } from '../search/search.ts'
import type { CheckResult, CheckScope } from './check-result.ts'

/** Maximum number of rows reported by each check. */
const maxRows = 10_000

/** Yields documents marked as duplicates of themselves. */
export async function* references(app: App): AsyncGenerator<CheckResult> {
  const { rows } = await sql<{ id: string; of: string }>`
    select id, duplicate_of as of from documents where duplicate_of = id limit ${maxRows}`.execute(app.db)
  for (const { id, of } of rows) {
    yield {
      severity: 'warning',
      message: 'is marked as a duplicate of itself',
      document_id: id,
      actual: of,
      async repair() {
        await app.db.updateTable('documents').set({ duplicate_of: null }).where('id', '=', id).where('duplicate_of', '=', of).execute()
        return 'removed the mark'
      },
    }
  }
}

/** Yields documents that wait for OCR or extraction without a job. */
export async function* status(app: App): AsyncGenerator<CheckResult> {
  for (const { id, status } of await listStranded(app.db, maxRows)) {
    yield {
      severity: 'error',
      message: `is ${status}, but has no job`,
      document_id: id,
      actual: status,
      repair: async () => ((await requeueDocument(app, id)) ? 'queued again' : 'has a job again'),
    }
  }
}

/** Yields jobs whose lease expired long ago. A running worker would have taken them over. */
export async function* queue(app: App): AsyncGenerator<CheckResult> {
  for (const job of await leases.loadAbandoned(app.db, maxRows)) {
    const { id, kind, worker, document_id, since } = job
    yield {
      severity: 'error',
      message: `the ${kind} job ${id} was abandoned by ${worker ?? 'its worker'}, and no worker has taken it over: is one running?`,
      ...(document_id === null ? {} : { document_id }),
      actual: since,
      repair: async () => ((await leases.requeue(app.db, job)) ? 'queued again' : 'a worker has taken it over'),
    }
  }
}

/** Yields shared links with more views than their maximum. */
export async function* links(app: App): AsyncGenerator<CheckResult> {
  const { rows } = await sql<{ id: string; document_id: string; max_views: number; view_count: number }>`
    select id, document_id, max_views, view_count from shared_links where view_count > max_views order by id limit ${maxRows}`.execute(
    app.db,
  )
  for (const { id, document_id, max_views, view_count } of rows) {
    const message = `the shared link ${id} was viewed more often than max_views`
    yield { severity: 'error', message, document_id, expected: max_views, actual: view_count }
  }
}

/** Compares the index with the documents. Pending index jobs are no finding. */
export async function* index(app: App, { signal }: Pick<CheckScope, 'signal'>): AsyncGenerator<CheckResult> {
  const { documents, jobs, indexed, differences } = await loadIndexState(app)
  if (differences === null || jobs > 0) return
  yield {
    severity: 'warning',
    message: `the search index has ${indexed} documents of ${documents}: ${differences}`,
    expected: documents,
    actual: indexed,
    async repair() {
      await reindex(app, { signal })
      return 'rebuilt'
    },
  }
}

/** Counts documents, queued index jobs and indexed documents. `differences`: description; null if the index is complete. */
export async function loadIndexState(app: App) {
  const { rows } = await sql<{ documents: number; jobs: number }>`
    select (select count(*) from live_documents) as documents,
      (select count(*) from jobs where kind in ('index', 'reindex') and status in ('pending', 'processing')) as jobs`.execute(app.db)
  const { documents: indexed, missing, extra, outdated } = await app.search.status()
  const differences = `${missing} missing, ${extra} extra, ${outdated} outdated`
  return { documents: 0, jobs: 0, ...rows[0], indexed, differences: missing + extra + outdated === 0 ? null : differences }
}
