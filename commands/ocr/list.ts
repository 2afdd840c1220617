import { Option } from 'commander'
import { documentStatuses } from '../../src/cli/arguments/document-filters.ts'
import { formatAge, parseDurationFlag, refuseEmpty, SuggestingOption } from '../../src/cli/arguments/flag-values.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { OcrJob } from '../../src/client/client.ts'

const columns: Column<OcrJob>[] = [
  { name: 'id', title: 'JOB' },
  { name: 'document_id', title: 'DOCUMENT' },
  ...columnsOf(['title', 'status', 'priority']),
  { name: 'attempts', align: 'right' },
  { name: 'age', align: 'right', value: ({ created_at }) => formatAge(created_at, new Date()) },
  { name: 'error', value: ({ error }) => error && `${error.code}: ${error.message}` },
  { name: 'filename', show: 'wide' },
  { name: 'progress', show: 'wide', align: 'right', value: ({ progress }) => `${progress}%` },
  ...columnsOf(['language', 'worker', 'created_at', 'started_at', 'completed_at'], { show: 'wide' }),
]

export const list = (cli: Cli) =>
  addLimitFlags(
    manual('list', {
      summary: 'List OCR jobs in the order of execution',
      examples: [
        ['ocr queue list --status pending,processing', 'unfinished jobs'],
        ['ocr queue list --status failed --all -o id', 'ids, for a script'],
        ['ocr queue list --status processing --older-than 1h', 'possibly stuck jobs'],
      ],
      exits: '0 listed · 2 bad filter · 4 not signed in · 69 server unreachable',
    })
      .alias('ls')
      .addOption(
        new SuggestingOption('--status <names>', 'only these, separated by commas: pending, processing, completed, failed, cancelled', [
          ...documentStatuses,
          'cancelled',
        ]),
      )
      .addOption(new Option('--priority <priority>', 'only this priority').choices(['low', 'normal', 'high', 'urgent']))
      .option('--older-than <duration>', 'queued longer ago than this, e.g. 1h'),
  ).action(async (flags: ListFlags & { status?: string; priority?: string; olderThan?: string }) => {
    const limit = parseLimit(flags)
    const { status, priority, olderThan } = flags
    refuseEmpty('--status', 'status', status)
    const before = olderThan === undefined ? null : new Date(Date.now() - parseDurationFlag('--older-than', olderThan)).toISOString()
    const client = await cli.client()
    const jobs = client.ocrQueue.list({ status, priority, per_page: before === null ? Math.min(limit, 100) : 100 })
    await printList(cli, before === null ? jobs : filterOlder(jobs, before), limit, { columns })
  })

async function* filterOlder(jobs: AsyncIterable<OcrJob>, before: string): AsyncGenerator<OcrJob> {
  for await (const job of jobs) if (job.created_at < before) yield job
}
