/** Runs one operation on many items, with an outcome for each. */
import type { Client } from '../../client/client.ts'
import { mapConcurrently } from '../../concurrency.ts'
import { formatFileError } from '../../errors.ts'
import { shorten } from '../../log/escape.ts'
import { parseId } from '../arguments/ids.ts'
import { describeMissingLabel } from '../arguments/labels.ts'
import { describeMissingOwner } from '../arguments/users.ts'
import { type Batch, type BatchItem, type BatchOptions, startBatch } from '../output/batch-output.ts'
import { ownerHint, validationIssues } from '../output/error-lines.ts'
import type { Cli } from './context.ts'
import { type Exit, exitOf, Failure, isExpectedExit } from './exit.ts'

/** Runs one operation and adds its item or its failure under `key`. Returns false if nothing new may start. */
export type RunItem = (key: string, work: (onBytes: (bytes: number) => void) => Promise<BatchItem | null>) => Promise<boolean>

export interface BatchRun<T> {
  /** command words ("documents delete"), and the phase for the progress ("deleting") */
  readonly command: string
  readonly phase: string
  readonly items: Iterable<T> | AsyncIterable<T>
  /** returns the key of an item; default: the item, which is a path or an id */
  keyOf?(item: T): string
  /** concurrent operations; default 1 */
  readonly concurrency?: number
  readonly isDryRun?: boolean | undefined
  /** columns of the items; default: action, key, id, error */
  readonly columns?: BatchOptions['columns']
  /** sum of bytes for the progress; null: unknown */
  readonly totalBytes?: number | null
  /** Processes one item and reports its bytes. Null: `add` gets the result later. An error becomes the result, or ends the batch (isFatal). */
  run?(item: T, onBytes: (bytes: number) => void): Promise<BatchItem | null>
  /** alternative to `run` if an item stands for several operations; its own errors end the batch */
  runGroup?(item: T, runItem: RunItem, onBytes: (bytes: number) => void): Promise<void>
  /** number of operations; default: length of `items`; null: unknown */
  readonly total?: number | null
  /** output of an endless command, which finishes it itself */
  readonly batch?: Batch
  /** runs after all items and before the summary, also after a stop or, with `isReachable` false, after the server was lost */
  finish?(add: (item: BatchItem) => void, isReachable: boolean): Promise<void>
}

/**
 * Processes all items and prints results and summary. After `cli.signal` aborted it starts nothing new, and running operations finish. Throws an
 * error that would fail all other items too: not signed in, server unreachable, invalid option.
 */
export async function runBatch<T>(cli: Cli, work: BatchRun<T>): Promise<void> {
  const batch = work.batch ?? startBatch(cli, work.command, work)
  const progress = cli.progress(work.phase)
  const failures = new Set<Exit>()
  const total = work.total ?? (Array.isArray(work.items) ? work.items.length : null)
  let fatal = null as { error: unknown } | null
  /** set after requests were printed (--print-curl) */
  let printed = null as { error: unknown } | null
  let done = 0
  let bytesDone = 0
  let added = 0
  let failed = 0

  const add = (item: BatchItem): void => {
    added++
    if (item.action === 'failed') failed++
    batch.add(item)
  }
  const updateProgress = (current: string): void => {
    const bytes = work.totalBytes === undefined ? {} : { bytes_done: bytesDone, bytes_total: work.totalBytes }
    progress.update({ done, total, current, ...bytes })
  }
  const isOver = (): boolean => cli.signal.aborted || fatal !== null
  const countBytes = (key: string) => (bytes: number) => {
    bytesDone += bytes
    updateProgress(key)
  }
  const runItem: RunItem = async (key, run) => {
    updateProgress(key)
    try {
      const item = await run(countBytes(key))
      if (item) add(item)
    } catch (error) {
      if (cli.signal.aborted && isAbort(error)) return false
      if (isExpectedExit(error)) printed = { error }
      else if (isFatal(error)) fatal ??= { error: describeMissing(error) }
      else {
        failures.add(exitOf(error))
        const hint = ownerHint(error, cli.dataOwner)
        const itemError = toItemError(error)
        add({ action: 'failed', key, error: hint === null ? itemError : { ...itemError, message: `${itemError.message}; fix: ${hint}` } })
      }
    }
    done++
    updateProgress(key)
    return !isOver()
  }
  const end = (error: unknown): void => {
    if (isExpectedExit(error)) printed = { error }
    else if (!(cli.signal.aborted && isAbort(error))) fatal ??= { error: describeMissing(error) }
  }
  const runOne = async (item: T): Promise<void> => {
    const key = work.keyOf?.(item) ?? String(item)
    if (work.run) await runItem(key, async (onBytes) => (await work.run?.(item, onBytes)) ?? null)
    else await work.runGroup?.(item, runItem, countBytes(key)).catch(end)
  }
  async function* itemsUntilStop(): AsyncGenerator<T> {
    for await (const item of work.items) {
      if (isOver()) return
      yield item
    }
  }

  // `items` may be requested while the batch runs, which can fail.
  await mapConcurrently(itemsUntilStop(), work.concurrency ?? 1, runOne).catch(end)
  progress.done()
  if (printed && !fatal) throw printed.error
  try {
    await work.finish?.(add, fatal === null)
  } catch (error) {
    fatal ??= { error }
  }
  const [firstFailure] = failures
  if (!work.batch) {
    if (fatal) cli.exit = exitOf(fatal.error)
    else if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
    else if (firstFailure && failures.size === 1 && failed === added) cli.exit = firstFailure
    if (!fatal || added > 0) batch.finish(fatal ? { error: toItemError(fatal.error) } : {})
  }
  if (fatal) throw fatal.error
}

/** One operation on objects of the API that are given by id. */
interface IdBatch {
  readonly command: string
  readonly phase: string
  /** action of the results ("deleted") */
  readonly action: string
  /** name of the objects in errors ("document") */
  readonly noun: string
  readonly isDryRun?: boolean | undefined
  /** Processes one object and returns further fields of its result, if it has any. */
  run(client: Client, id: string): Promise<unknown>
}

/** Runs an operation on each of the ids and prints results and summary. `opened` is a client that is open already. */
export async function runIdBatch(
  cli: Cli,
  ids: readonly string[],
  { action, noun, run, ...batch }: IdBatch,
  opened?: Client,
): Promise<void> {
  const client = opened ?? (await cli.client())
  await runBatch(cli, {
    ...batch,
    items: ids,
    async run(key) {
      const id = parseId(key, noun)
      return Object.assign({ action, key, id }, await run(client, id))
    },
  })
}

/** Returns the exit of a command that `signal` stopped. */
export function exitOfAbort({ reason }: AbortSignal): Exit {
  if ((reason as Error).name === 'TimeoutError') return 'PENDING'
  return (reason as Error).message.includes('SIGINT') ? 'INTERRUPTED' : 'TERMINATED'
}

const isAbort = (error: unknown): boolean => ['AbortError', 'TimeoutError'].includes((error as Error).name)

/** Errors of connection, token, options or a full disk concern all items. Issues with `path` "file" concern one. */
function isFatal(error: unknown): boolean {
  if (['ENOSPC', 'EDQUOT'].includes(String((error as { code?: unknown }).code))) return true
  if (error instanceof Failure && error.exit === 'USAGE') return true
  // One stored file cannot be read.
  if ((error as { details?: { file?: unknown } }).details?.file !== undefined) return false
  if (['AUTH', 'UNAVAILABLE'].includes(exitOf(error))) return true
  return validationIssues(error).some(({ path }) => path !== '' && path !== 'file')
}

const describeMissing = (error: unknown): unknown => describeMissingOwner(describeMissingLabel(error))

/** Converts an error to the error of an item, with the reason of a rejected value. */
export function toItemError(error: unknown): NonNullable<BatchItem['error']> {
  const { code, message, details } = error as { code?: unknown; message: string; details?: { max_bytes?: unknown } }
  const limit = typeof details?.max_bytes === 'number' ? ` At most ${details.max_bytes} bytes.` : ''
  return {
    code: typeof code === 'string' ? code : exitOf(error),
    message: shorten(`${validationIssues(error)[0]?.message ?? formatFileError(message)}${limit}`),
  }
}

/** Maps items one after the other. Continues after RequestPrinted (--print-curl), and throws it after the last item. */
export async function mapSequential<T, R>(items: Iterable<T>, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let printed = null as { error: unknown } | null
  for (const item of items) {
    try {
      results.push(await work(item))
    } catch (error) {
      if (!isExpectedExit(error)) throw error
      printed = { error }
    }
  }
  if (printed) throw printed.error
  return results
}
