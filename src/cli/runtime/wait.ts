/** Waiting until documents are read. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../client/client.ts'
import type { DocumentView } from '../../documents/view.ts'
import type { Cli } from './context.ts'
import { Failure } from './exit.ts'

/** Longest time (ms) between two looks: here, and at a server that counts its calls. */
const maxPollIntervalMs = { here: 300, there: 3000 }

/** More than these are looked for in the list of what is not finished, a hundred with one call. */
const maxSingleLookups = 3

/** What --help says of such a command. */
export const inProcessWorkerNote = 'On the server itself, while no worker runs, the documents are read in this process.'

/** A client for a command that waits for jobs. On this machine, while nobody else works, a worker runs in this very process until the command ends. */
export async function openClientWithWorker(cli: Cli, command: string): Promise<Client> {
  // From here on --timeout ends this wait, and in its own words, even while the database is still being started.
  void cli.signal
  if (cli.target.url !== null) return cli.client()
  const [{ openLocalClient }, { ensureWorker }] = await Promise.all([
    import('../remote/local-client.ts'),
    import('../../worker/ensure-worker.ts'),
  ])
  const app = await cli.app(command, { hasStatementTimeout: false })
  const client = await openLocalClient(app, cli.options.as)
  const presence = await ensureWorker(app, () => cli.note('no worker is running; documents are read in this process meanwhile'))
  cli.onEnd(() => presence.stop(cli.signal.aborted))
  cli.onForcedExit(() => presence.releaseNow())
  return client
}

/** A look that is going on when the command is told to stop may end for so long (ms); a command past its --timeout has not much more. */
const lastPollMs = 700

/**
 * Looks again and again, at a growing distance, until `isOver` says so; false when `cli.signal` ended it. A look that takes
 * too long then is left to itself.
 */
export async function pollUntil(cli: Cli, isOver: () => Promise<boolean>): Promise<boolean> {
  const { signal } = cli
  const longest = cli.target.url === null ? maxPollIntervalMs.here : maxPollIntervalMs.there
  const stopped = new Promise<boolean>((resolve) => {
    const stop = () => void setTimeout(() => resolve(false), lastPollMs)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  for (let distance = 100; ; distance = Math.min(longest, distance * 1.5)) {
    const look = isOver()
    look.catch(() => {})
    if (await Promise.race([look, stopped])) return true
    if (!signal.aborted) await sleep(distance, undefined, { signal }).catch(() => {})
    if (signal.aborted) return false
  }
}

/**
 * Waits until each is completed or failed, and tells of it (null: it was deleted). Answers the ids that were not when `cli.signal` ended it.
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
  let isLeft = false
  await pollUntil(cli, async () => {
    progress.update({ done: total - waiting.size, total })
    const busy = waiting.size > maxSingleLookups ? await listUnfinished(client) : new Set<string>()
    for (const id of waiting) {
      if (busy.has(id)) continue
      const document = await getIfExists(client, id)
      if (isLeft) return false
      if (document && !isFinished(document)) continue
      waiting.delete(id)
      onEnd(id, document)
    }
    return waiting.size === 0
  })
  isLeft = true
  progress.done()
  return waiting
}

/** Whether nothing more will happen to it by itself. */
export const isFinished = ({ status }: Pick<DocumentView, 'status'>): boolean => status === 'completed' || status === 'failed'

/** Throws Failure PENDING where --timeout is what ended a wait; a signal has an exit of its own. */
export function throwIfTimedOut({ signal }: Cli, what: string): void {
  if (signal.aborted && (signal.reason as Error).name === 'TimeoutError') throw new Failure('PENDING', `--timeout has passed: ${what}`)
}

async function listUnfinished(client: Client): Promise<Set<string>> {
  const ids = new Set<string>()
  const query = { status: 'pending,processing', fields: 'id', sort: 'created_at', order: 'asc' }
  for await (const { id } of client.documents.list(query)) ids.add(id)
  return ids
}

async function getIfExists(client: Client, id: string): Promise<DocumentView | null> {
  try {
    return await client.documents.get(id)
  } catch (error) {
    if ((error as { status?: unknown }).status === 404) return null
    throw error
  }
}
