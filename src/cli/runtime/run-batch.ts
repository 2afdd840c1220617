/** A command that does the same to many things: some at once, each with its own outcome, until it is done or told to stop. */

import { type Batch, type BatchItem, type BatchOptions, startBatch } from '../output/batch-output.ts'
import { formatFileError } from '../output/error-lines.ts'
import type { Cli } from './context.ts'
import { type Exit, exitOf, Failure, isExpectedExit } from './exit.ts'

/** Does one piece of work under its own key: its item, or its failure, is added. False: begin nothing more. */
export type RunItem = (key: string, work: (moved: (bytes: number) => void) => Promise<BatchItem | null>) => Promise<boolean>

export interface BatchRun<T> {
  /** the words typed ("documents delete"), and for the progress line what is going on ("deleting") */
  readonly command: string
  readonly phase: string
  readonly items: readonly T[]
  /** what the person gave: a path, an id */
  keyOf(thing: T): string
  /** at once; default 1 */
  readonly concurrency?: number
  readonly isDryRun?: boolean
  /** of the items; default: action, key, id, error */
  readonly columns?: BatchOptions['columns']
  /** of all things, where that says more than a count; null: nobody knows */
  readonly totalBytes?: number | null
  /**
   * The work on one thing, which may tell of the bytes it moves; null: its item follows later, through `add`. What it throws is the item's
   * error, or ends everything (endsAll).
   */
  run?(thing: T, moved: (bytes: number) => void): Promise<BatchItem | null>
  /** instead, where one thing stands for several pieces of work; what it throws itself ends everything */
  runGroup?(thing: T, each: RunItem, moved: (bytes: number) => void): Promise<void>
  /** pieces of work; default: as many as there are things */
  readonly total?: number
  /** of a command that works through things again and again: it takes the items, and ends it itself */
  readonly batch?: Batch
  /** comes after all things and before the summary, also when it was told to stop or (`isReachable` false) lost its server */
  finish?(add: (item: BatchItem) => void, isReachable: boolean): Promise<void>
}

/**
 * Works through them and prints items and summary. Begins nothing new once `cli.signal` says stop; what runs is ended. Throws what would
 * have made all the others fail as well: not signed in, server away, an option that is not good.
 */
export async function runBatch<T>(cli: Cli, work: BatchRun<T>): Promise<void> {
  const batch = work.batch ?? startBatch(cli, work.command, work)
  const progress = cli.progress(work.phase)
  const failures = new Set<Exit>()
  const queue = work.items.values()
  const total = work.total ?? work.items.length
  let fatal = null as { error: unknown } | null
  /** the requests were shown instead of sent (--print-curl) */
  let shown = null as { error: unknown } | null
  let done = 0
  let bytesDone = 0
  let added = 0
  let failed = 0

  const add = (item: BatchItem): void => {
    added++
    if (item.action === 'failed') failed++
    batch.add(item)
  }
  const tell = (current: string): void => {
    const bytes = work.totalBytes === undefined ? {} : { bytes_done: bytesDone, bytes_total: work.totalBytes }
    progress.update({ done: done, total, current, ...bytes })
  }
  const isOver = (): boolean => cli.signal.aborted || fatal !== null
  const movedFor = (key: string) => (bytes: number) => {
    bytesDone += bytes
    tell(key)
  }
  const each: RunItem = async (key, run) => {
    tell(key)
    try {
      const item = await run(movedFor(key))
      if (item) add(item)
    } catch (error) {
      if (cli.signal.aborted && isAbort(error)) return false
      if (isExpectedExit(error)) shown = { error }
      else if (isFatal(error)) fatal ??= { error }
      else {
        failures.add(exitOf(error))
        add({ action: 'failed', key, error: toItemError(error) })
      }
    }
    done++
    tell(key)
    return !isOver()
  }
  const one = async (thing: T): Promise<void> => {
    const key = work.keyOf(thing)
    if (work.run) {
      await each(key, async (moved) => (await work.run?.(thing, moved)) ?? null)
      return
    }
    await work.runGroup?.(thing, each, movedFor(key)).catch((error) => {
      if (isExpectedExit(error)) shown = { error }
      else if (!(cli.signal.aborted && isAbort(error))) fatal ??= { error }
    })
  }
  const lane = async (): Promise<void> => {
    for (const thing of queue) {
      if (isOver()) return
      await one(thing)
    }
  }

  await Promise.all(Array.from({ length: work.concurrency ?? 1 }, lane))
  progress.done()
  if (shown && !fatal) throw shown.error
  try {
    await work.finish?.(add, fatal === null)
  } catch (error) {
    fatal ??= { error }
  }
  const [only] = failures
  if (!work.batch) {
    if (fatal) cli.exit = exitOf(fatal.error)
    else if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
    else if (only && failures.size === 1 && failed === added) cli.exit = only
    if (!fatal || added > 0) batch.finish()
  }
  if (fatal) throw fatal.error
}

/** How a command ends that `signal` stopped. */
export function exitOfAbort({ reason }: AbortSignal): Exit {
  if ((reason as Error).name === 'TimeoutError') return 'PENDING'
  return (reason as Error).message.includes('SIGINT') ? 'INTERRUPTED' : 'TERMINATED'
}

const isAbort = (error: unknown): boolean => ['AbortError', 'TimeoutError'].includes((error as Error).name)

/** What is wrong with the connection, the token or the command's own options is wrong for every thing; `path` "file" is about one file. */
function isFatal(error: unknown): boolean {
  if (error instanceof Failure && error.exit === 'USAGE') return true
  if (['AUTH', 'UNAVAILABLE'].includes(exitOf(error))) return true
  return validationIssues(error).some(({ path }) => path !== '' && path !== 'file')
}

/** An error as an item tells it; of a refused value the reason is said, not only that it is refused. */
export function toItemError(error: unknown): NonNullable<BatchItem['error']> {
  const { code, message, details } = error as { code?: unknown; message: string; details?: { max_bytes?: unknown } }
  const most = typeof details?.max_bytes === 'number' ? ` At most ${details.max_bytes} bytes.` : ''
  return {
    code: typeof code === 'string' ? code : exitOf(error),
    message: `${validationIssues(error)[0]?.message ?? formatFileError(message)}${most}`,
  }
}

/** What a server found wrong with which value; nothing for other errors. */
export function validationIssues(error: unknown): { path: string; message: string }[] {
  const issues = (error as { details?: { issues?: unknown } }).details?.issues
  return Array.isArray(issues) ? issues : []
}
