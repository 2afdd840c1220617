/** Polling, and waiting until documents can be found. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import { dms } from '../../log/fix.ts'
import { slicesOf } from '../../slices.ts'
import type { Cli } from './context.ts'
import { Failure } from './exit.ts'

/** Longest interval between two polls; a remote server limits its requests. */
const maxPollIntervalMs = { local: 300, remote: 3000 }

/** Times of a wait in which no document finishes: until the worker is checked, between two checks, and until a missing worker is an error. */
const workerCheckMs = { first: 3000, interval: 3000, limit: 10_000 }

/** Maximum number of documents that are requested one by one. For more, the list of unfinished documents is read, 100 per request. */
const maxSingleLookups = 3

/** Note for --help. */
export const inProcessWorkerNote = 'On the server itself, if no worker is running, this process runs OCR.'

/** Opens a client for a command that waits for jobs. On this machine, if no worker is running, starts one in this process until the command ends. */
export async function openClientWithWorker(cli: Cli, command: string): Promise<Client> {
  // Starts --timeout before the database is started.
  void cli.signal
  if (cli.target.url !== null) return cli.client()
  const [{ openLocalClient }, { ensureWorker }] = await Promise.all([
    import('../remote/local-client.ts'),
    import('../../worker/ensure-worker.ts'),
  ])
  const app = await cli.app(command, { hasStatementTimeout: false })
  const client = await openLocalClient(app, cli)
  const worker = await ensureWorker(app, () => cli.note('no worker is running; this process runs OCR until the command ends'))
  cli.onEnd(() => worker.stop(cli.signal.aborted))
  cli.onForcedExit(() => worker.releaseNow())
  return client
}

/** Time for the last poll after an abort; a command past its --timeout has little more. */
const lastPollMs = 700

/** Polls with growing intervals until `isOver` returns true. Returns false after `cli.signal` aborted. Then abandons a poll that takes too long. */
export async function pollUntil(cli: Cli, isOver: () => Promise<boolean>): Promise<boolean> {
  const { signal } = cli
  const maxDelayMs = cli.target.url === null ? maxPollIntervalMs.local : maxPollIntervalMs.remote
  const stopped = new Promise<boolean>((resolve) => {
    const stop = () => void setTimeout(() => resolve(false), lastPollMs)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  for (let delayMs = 100; ; delayMs = Math.min(maxDelayMs, delayMs * 1.5)) {
    const poll = isOver()
    poll.catch(() => {})
    if (await Promise.race([poll, stopped])) return true
    if (!signal.aborted) await sleep(delayMs, undefined, { signal }).catch(() => {})
    if (signal.aborted) return false
  }
}

/** Ids of one request for pending documents. */
const maxPendingLookups = 1000

/**
 * Waits until each document is completed or failed and search finds it, and calls `onEnd` (null: deleted). Returns the ids that were unfinished when `cli.signal` aborted.
 * Throws Failure PENDING if no worker runs.
 */
export async function waitForDocuments(
  cli: Cli,
  client: Client,
  ids: Iterable<string>,
  onEnd: (id: string, document: DocumentView | null) => void,
): Promise<Set<string>> {
  const waiting = new Set(ids)
  const total = waiting.size
  const progress = cli.progress('reading')
  const finished = new Map<string, DocumentView>()
  let hasStopped = false
  const watch = watchWorker(cli, client)
  const end = (id: string, document: DocumentView | null): void => {
    watch.onProgress()
    waiting.delete(id)
    finished.delete(id)
    onEnd(id, document)
  }
  await pollUntil(cli, async () => {
    progress.update({ done: total - waiting.size, total })
    const busy = waiting.size > maxSingleLookups ? await listUnfinished(client) : new Set<string>()
    for (const id of waiting) {
      if (busy.has(id) || finished.has(id)) continue
      const document = await nullIfMissing(client.documents.get(id, { content: false }))
      if (hasStopped) return false
      if (!document) end(id, document)
      else if (isFinished(document)) finished.set(id, document)
    }
    const pending = await findPending(client, [...finished.keys()])
    if (hasStopped) return false
    for (const [id, document] of finished) if (!pending.has(id)) end(id, document)
    if (waiting.size > 0) await watch.check(`${waiting.size} of ${total} documents`)
    return waiting.size === 0
  }).finally(() => {
    hasStopped = true
    progress.done()
  })
  return waiting
}

/** Checks during a wait that workers run which can end it. */
function watchWorker({ note, target }: Cli, { health }: Client) {
  let progressAt = performance.now()
  let checkedAt = progressAt
  let failedAt: number | null = null
  return {
    onProgress() {
      progressAt = performance.now()
      failedAt = null
    },
    /** Says once if no worker runs. Throws Failure PENDING if none has run for some time. */
    async check(waiting: string): Promise<void> {
      const now = performance.now()
      if (now - progressAt < workerCheckMs.first || now - checkedAt < workerCheckMs.interval) return
      checkedAt = now
      // A proxy may hide the route.
      const { checks } = await health.ready().catch(() => ({ checks: {} as Record<string, string> }))
      if (checks.worker !== 'fail') {
        failedAt = null
        return
      }
      if (failedAt === null) note(`no worker runs OCR and indexing on the server; ${waiting} wait for one`)
      failedAt ??= now
      if (now - failedAt >= workerCheckMs.limit)
        throw new Failure('PENDING', `no worker runs OCR and indexing: ${waiting} cannot be found by search yet`, {
          fix: ['on the server: ', target.url === null ? dms`worker` : 'dms worker', ', or dms serve without --no-worker'],
        })
    },
  }
}

/** Returns whether the document is completed or failed. */
export const isFinished = ({ status }: Pick<DocumentView, 'status'>): boolean => status === 'completed' || status === 'failed'

/** Throws Failure PENDING if --timeout ended the wait. Signals have their own exit. */
export function throwIfTimedOut({ signal }: Cli, state: string): void {
  if (signal.aborted && (signal.reason as Error).name === 'TimeoutError') throw new Failure('PENDING', `--timeout has passed: ${state}`)
}

async function listUnfinished(client: Client): Promise<Set<string>> {
  const ids = new Set<string>()
  const query = { status: 'pending,processing', fields: 'id', sort: 'created_at', order: 'asc' }
  for await (const { id } of client.documents.list(query)) ids.add(id)
  return ids
}

async function findPending(client: Client, ids: readonly string[]): Promise<Set<string>> {
  const pending = new Set<string>()
  for (const batch of slicesOf(ids, maxPendingLookups))
    for (const id of (await nullIfMissing(client.search.pending(batch))) ?? []) pending.add(id)
  return pending
}

/** Returns null for 404: the document was deleted, or the server is older than the route. */
async function nullIfMissing<Answer>(answer: Promise<Answer>): Promise<Answer | null> {
  try {
    return await answer
  } catch (error) {
    if ((error as { status?: unknown }).status === 404) return null
    throw error
  }
}
