/** Output of a batch: results as they arrive, and a summary. */
import { escapeControls } from '../../log/escape.ts'
import { type Column, fillMissingFields, pickFields, rejectUnknownFields } from '../output/output.ts'
import { buildSummary } from '../output/summary.ts'
import type { Cli } from '../runtime/context.ts'

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
  add(item: BatchItem): void
  /** prints the summary with the fields of `more`; sets the exit to PARTIAL, or FAILED if every item failed, unless it is set */
  finish(more?: Readonly<Record<string, unknown>>): void
}

export const errorColumn: Column<BatchItem> = { name: 'error', value: ({ error }) => error?.message }

const defaultColumns: readonly Column<BatchItem>[] = [{ name: 'action' }, { name: 'key' }, { name: 'id' }, errorColumn]

/** Optional fields of results. */
const optionalFields = ['type', 'bytes', 'document_id', 'job_id', 'line', 'path', 'priority', 'reason', 'sha256', 'status']

/** Counts that the summary always contains, even if they are 0. */
const defaultActions = ['created', 'updated', 'unchanged', 'skipped', 'failed']

export interface BatchOptions {
  readonly isDryRun?: boolean | undefined
  /** columns of the results; default: action, key, id, error */
  readonly columns?: readonly Column<BatchItem>[] | undefined
  /** runs until it is stopped: -o json prints JSON lines */
  readonly isEndless?: boolean
  readonly now?: () => Date
}

/** Starts the output; `command` is the command words ("users import"). Throws Failure USAGE for an unknown field. */
export function startBatch(
  cli: Cli,
  command: string,
  { isDryRun = false, columns = defaultColumns, isEndless = false, now = () => new Date() }: BatchOptions = {},
): Batch {
  const { isHuman, fields } = cli.options
  const format = isEndless && cli.options.format === 'json' ? 'jsonl' : cli.options.format
  rejectUnknownFields(fields, new Set([...defaultColumns, ...columns].map(({ name }) => name).concat(optionalFields)))
  const isStreamed = format === 'jsonl' || format === 'id' || format === 'tsv'
  const started = now()
  const counts = new Map(defaultActions.map((action) => [action, 0]))
  const items: BatchItem[] = []
  let bytes = 0
  let isContinuation = false
  const rows = () => items.map((item) => fillMissingFields(item, fields))

  return {
    add(item) {
      counts.set(item.action, (counts.get(item.action) ?? 0) + (item.count ?? 1))
      bytes += item.bytes ?? 0
      const hasFailed = item.action === 'failed'
      if (hasFailed && (isHuman || format === 'id'))
        cli.warn(`${escapeControls(item.key)}: ${escapeControls(item.error?.message ?? 'failed')}`)
      if (isHuman) return
      if (!isStreamed) items.push(item)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(pickFields({ type: 'item', ...item }, fields))}\n`)
      else if (format === 'tsv') {
        cli.print([fillMissingFields(item, fields)], { columns, isContinuation })
        isContinuation = true
      } else if (item.id) cli.write(`${escapeControls(item.id)}\n`)
    },
    finish(more = {}) {
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
      const failed = counts.get('failed') ?? 0
      if (failed > 0 && cli.exit === 'OK') cli.exit = failed === total ? 'FAILED' : 'PARTIAL'
      const counted = { dry_run: isDryRun, total, ...Object.fromEntries(counts), bytes, ...more }
      const summary = buildSummary(cli, command, counted, started, now())
      // --fields applies to results, not to the summary.
      if (isHuman) cli.write(`${formatCounts(counts, isDryRun, summary.duration_seconds)}\n`)
      else if (format === 'json')
        cli.write(`${JSON.stringify({ ...summary, items: items.map((item) => pickFields(item, fields)) }, null, 2)}\n`)
      else if (format === 'jsonl') cli.write(`${JSON.stringify(summary)}\n`)
      else if (format !== 'id' && !isContinuation) cli.print(rows(), { columns })
    },
  }
}

function formatCounts(counts: ReadonlyMap<string, number>, isDryRun: boolean, seconds: number): string {
  const parts = [...counts].filter(([, count]) => count > 0).map(([action, count]) => `${action} ${count}`)
  return `${isDryRun ? 'would be: ' : ''}${parts.join(' · ') || 'nothing to do'}     ${seconds.toFixed(1)} s`
}
