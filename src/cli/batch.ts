/** The result of a command that works through many things: its items as they come, and one summary at the end. */
import { plain } from '../plain.ts'
import type { Cli } from './context.ts'
import { exits } from './exit.ts'
import type { Column } from './output.ts'

/** What happened to one thing. More fields may follow; names are those of the API. */
export interface Item {
  readonly action: 'created' | 'updated' | 'unchanged' | 'skipped' | 'failed' | (string & {})
  /** what the person gave: a path, a row's user name, an id */
  readonly key: string
  readonly id?: string | null
  readonly bytes?: number
  readonly error?: { readonly code: string; readonly message: string }
  readonly [more: string]: unknown
}

export interface Batch {
  add(item: Item): void
  /** prints the summary and sets the exit, unless the command has: OK, PARTIAL, or FAILED where nothing went well; `more` joins the summary */
  finish(more?: Readonly<Record<string, unknown>>): void
}

export const errorColumn: Column<Item> = { name: 'error', value: ({ error }) => error?.message }

const usualColumns: readonly Column<Item>[] = [{ name: 'action' }, { name: 'key' }, { name: 'id' }, errorColumn]

/** These count even where they are 0, so that a script finds them. */
const usual = ['created', 'updated', 'unchanged', 'skipped', 'failed']

export interface BatchOptions {
  readonly isDryRun?: boolean | undefined
  /** of the items, where the usual ones do not tell enough */
  readonly columns?: readonly Column<Item>[] | undefined
  readonly now?: () => Date
}

/** Starts one; `command` is the words typed ("users import"). */
export function startBatch(
  cli: Cli,
  command: string,
  { isDryRun = false, columns = usualColumns, now = () => new Date() }: BatchOptions = {},
): Batch {
  const { format, isHuman } = cli.options
  const isStreamed = format === 'jsonl' || format === 'id' || (!isHuman && format === 'tsv')
  const started = now()
  const counts = new Map(usual.map((action) => [action, 0]))
  const items: Item[] = []
  let bytes = 0

  return {
    add(item) {
      counts.set(item.action, (counts.get(item.action) ?? 0) + 1)
      bytes += item.bytes ?? 0
      const hasFailed = item.action === 'failed'
      if (hasFailed && (isHuman || format === 'id')) cli.warn(`${plain(item.key)}: ${plain(item.error?.message ?? 'failed')}`)
      if (!isStreamed) items.push(item)
      else if (format === 'jsonl') cli.print({ type: 'item', ...item }, { columns: [] })
      else if (format === 'tsv') cli.print([item], { columns })
      else if (item.id) cli.write(`${plain(item.id)}\n`)
    },
    finish(more = {}) {
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
      const failed = counts.get('failed') ?? 0
      if (failed > 0 && cli.exit === 'OK') cli.exit = failed === total ? 'FAILED' : 'PARTIAL'
      const finished = now()
      const summary = {
        type: 'summary',
        command,
        dry_run: isDryRun,
        total,
        ...Object.fromEntries(counts),
        bytes,
        ...more,
        started_at: started.toISOString(),
        finished_at: finished.toISOString(),
        duration_seconds: (finished.getTime() - started.getTime()) / 1000,
        exit_code: exits[cli.exit][0],
      }
      if (isHuman) cli.write(`${sentence(counts, isDryRun, summary.duration_seconds)}\n`)
      else if (format === 'json') cli.print({ ...summary, items }, { columns: [] })
      else if (format === 'jsonl') cli.print(summary, { columns: [] })
      else if (!isStreamed) cli.print(items, { columns })
    },
  }
}

function sentence(counts: ReadonlyMap<string, number>, isDryRun: boolean, seconds: number): string {
  const parts = [...counts].filter(([, count]) => count > 0).map(([action, count]) => `${action} ${count}`)
  return `${isDryRun ? 'would be: ' : ''}${parts.join(' · ') || 'nothing to do'}     ${seconds.toFixed(1)} s`
}
