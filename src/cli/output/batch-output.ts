/** Output of a batch: one result per item, and a summary. */
import { shorten } from '../../log/escape.ts'
import type { Cli } from '../runtime/context.ts'
import { type Column, columnsOf } from './output.ts'
import { openResultStream, type StreamOptions } from './result-stream.ts'

/** Result for one item. Fields have their API names. */
export interface BatchItem {
  readonly action: 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed' | (string & {})
  /** argument of the user: a path, a user name, an id */
  readonly key: string
  readonly id?: string | null
  readonly bytes?: number
  /** number of items that this result stands for */
  readonly count?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly [more: string]: unknown
}

export interface Batch {
  /** adds an item; text output prints `sentence` instead. Its error goes to standard error unless the format is JSON */
  add(item: BatchItem, sentence?: string): void
  /** prints the summary with the fields of `more`; sets the exit to PARTIAL, or FAILED if every item failed, unless it is set */
  finish(more?: Readonly<Record<string, unknown>>): void
}

export const errorColumn: Column<BatchItem> = { name: 'error', value: ({ error }) => error?.message }

const defaultColumns: readonly Column<BatchItem>[] = [...columnsOf(['action', 'key', 'id']), errorColumn]

/** Optional fields of results, and fields shown by other columns. */
const optionalFields = [
  ...['action', 'key', 'id', 'error'],
  ...['bytes', 'document_id', 'job_id', 'line', 'path', 'priority', 'reason', 'sha256', 'status'],
]

/** Counts that the summary always contains, even if they are 0. */
const defaultActions = ['created', 'updated', 'unchanged', 'skipped', 'failed']

export interface BatchOptions extends Pick<StreamOptions<BatchItem>, 'isEndless' | 'now'> {
  readonly isDryRun?: boolean | undefined
  /** columns of the results; default: action, key, id, error */
  readonly columns?: readonly Column<BatchItem>[] | undefined
}

/** Starts the output; `command` is the command words ("users import"). Throws Failure USAGE for an unknown field. */
export function startBatch(cli: Cli, command: string, { isDryRun = false, columns = defaultColumns, ...stream }: BatchOptions = {}): Batch {
  const results = openResultStream<BatchItem>(cli, command, { ...stream, type: 'item', columns, optionalFields })
  const counts = new Map(defaultActions.map((action) => [action, 0]))
  let bytes = 0
  return {
    add(item, sentence) {
      counts.set(item.action, (counts.get(item.action) ?? 0) + (item.count ?? 1))
      bytes += item.bytes ?? 0
      if (item.action === 'failed' && !cli.options.isJson) cli.warn(formatFailure(item))
      results.add(item, item.action === 'failed' ? undefined : sentence)
    },
    finish(more = {}) {
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
      const failed = counts.get('failed') ?? 0
      if (failed > 0 && cli.exit === 'OK') cli.exit = failed === total ? 'FAILED' : 'PARTIAL'
      const parts = [...counts].filter(([, count]) => count > 0).map(([action, count]) => `${action} ${count}`)
      const sentence = `${isDryRun ? 'would be: ' : ''}${parts.join(' · ') || 'nothing to do'}`
      // Rows for programs look like those of a real run.
      if (isDryRun && !cli.options.isJson && !cli.options.isHuman) cli.note('dry run: nothing was changed')
      results.finish({ dry_run: isDryRun, total, ...Object.fromEntries(counts), bytes, ...more }, sentence)
    },
  }
}

/** Formats the error of an item. Errors of files begin with their path, which is the key. */
function formatFailure({ key, error }: BatchItem): string {
  const message = error?.message ?? 'failed'
  return message.startsWith(`${key}: `) ? message : shorten(`${key}: ${message}`)
}
