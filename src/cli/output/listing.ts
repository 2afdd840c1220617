/** Paged lists: prints rows as they arrive if the format allows it. */
import { once } from 'node:events'
import { type Command, Option } from 'commander'
import type { EntryStream } from '../../client/http/connection.ts'
import { parseCount } from '../arguments/flag-values.ts'
import type { Cli } from '../runtime/context.ts'
import { startJsonArray } from './json-array.ts'
import { jsonRow, type Shape } from './output.ts'

export interface ListFlags {
  limit: string
  all?: boolean
}

/** Adds --limit and --all. */
export const addLimitFlags = (command: Command): Command =>
  command.option('--limit <n>', 'maximum number of rows', '50').addOption(new Option('--all', 'all rows').conflicts('limit'))

/** Parses --limit; Infinity with --all. Throws Failure USAGE. */
export const parseLimit = ({ limit, all }: ListFlags): number => (all ? Number.POSITIVE_INFINITY : parseCount('--limit', limit))

/** Bytes that wait for the reader of standard output, at most. */
const maxUnreadBytes = 1 << 20

/** Resolves when the reader of standard output has taken most of what was printed. Without this call all of it waits in memory. */
export async function waitForReader(): Promise<void> {
  const { stdout } = process
  if (stdout.writableNeedDrain && stdout.writableLength > maxUnreadBytes) await once(stdout, 'drain')
}

/** Prints at most `limit` rows. With -v notes that there are more, and their number if `rows` knows it. */
export async function printList<T extends object>(
  cli: Cli,
  rows: AsyncIterable<T> & Partial<Pick<EntryStream<T>, 'total'>>,
  limit: number,
  shape: Shape<T>,
): Promise<void> {
  // Formats without column widths do not need all rows at once, which may be millions.
  const isStreamed = ['json', 'jsonl', 'id', 'tsv', 'csv'].includes(cli.options.format)
  const array = cli.options.format === 'json' ? startJsonArray(cli.write) : null
  const collected: T[] = []
  let count = 0
  for await (const row of rows) {
    if (count === limit) {
      cli.note(`showing the first ${limit}; use --all`)
      break
    }
    count++
    if (array) array.add(jsonRow(row, shape, cli.options))
    else if (isStreamed) cli.print([row], { ...shape, isContinuation: count > 1 })
    else collected.push(row)
    await waitForReader()
    // Stop here instead of fetching another page only to count it.
    const total = rows.total?.() ?? null
    if (count < limit || (total === null && cli.options.verbose > 0)) continue
    if (total !== null && total > limit && cli.options.verbose > 0) cli.note(`showing ${limit} of ${total}; use --all`)
    break
  }
  if (array) {
    array.end()
    cli.write('\n')
  } else if (!isStreamed || count === 0) cli.print(collected, shape)
}
