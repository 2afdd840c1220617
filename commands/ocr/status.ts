import type { Command } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { addWatchFlag, runOrWatch, type WatchFlag } from '../../src/cli/runtime/watch.ts'
import type { OcrStatus } from '../../src/client/client.ts'

interface Flags {
  watch?: WatchFlag
  maxPending?: string
  maxFailed?: string
}

const columns: Column<OcrStatus>[] = [
  { name: 'pending', align: 'right' },
  { name: 'processing', align: 'right' },
  { name: 'completed_today', title: 'DONE_TODAY', align: 'right' },
  { name: 'failed', align: 'right' },
  { name: 'average_processing_time', title: 'AVG', align: 'right', value: (row) => row.average_processing_time.toFixed(1) },
  { name: 'estimated_completion', title: 'ETA' },
  { name: 'paused', value: ({ paused }) => (paused ? 'yes' : 'no') },
]

export const ocrQueueStatus = (cli: Cli): Command =>
  addWatchFlag(
    manual('status', {
      summary: 'Show the number of OCR jobs by state',
      examples: [
        ['ocr queue', 'shorthand'],
        ['ocr queue --watch 5s', 'repeat until Ctrl-C'],
        ['ocr queue status --max-pending 500 --max-failed 0 -q', 'for monitoring: exit 3 above a limit'],
      ],
      exits: '0 shown · 3 above --max-pending or --max-failed · 4 not signed in · 69 server unreachable',
    }),
  )
    .option('--max-pending <n>', 'exit 3 if more jobs are pending')
    .option('--max-failed <n>', 'exit 3 if more jobs have failed')
    .action(async ({ watch, maxPending, maxFailed }: Flags) => {
      const limits = { pending: parseLimit('--max-pending', maxPending), failed: parseLimit('--max-failed', maxFailed) }
      await runOrWatch(cli, watch, async () => {
        const client = await cli.client()
        return async () => {
          const status = await client.ocrQueue.status()
          const isOver = status.pending > limits.pending || status.failed > limits.failed
          cli.exit = isOver ? 'PARTIAL' : 'OK'
          printStatus(cli, status)
        }
      })
    })

/** Prints the status: the object of the API with -o json, `sentence` on a terminal, else one line. */
export function printStatus(cli: Cli, status: OcrStatus, sentence?: string): void {
  const { isJson } = cli.options
  cli.print(isJson ? status : [status], { columns, id: 'pending', ...(sentence === undefined ? {} : { sentence }) })
}

function parseLimit(flag: string, given: string | undefined): number {
  if (given === undefined) return Number.POSITIVE_INFINITY
  return parseCount(flag, given, { min: 0 })
}
