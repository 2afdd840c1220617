import { type Command, Option } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { readIds } from '../../src/cli/arguments/ids.ts'
import { startBatch } from '../../src/cli/output/batch-output.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf, type Shape } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { exitOfAbort, runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import { inProcessWorkerNote, openClientWithWorker, pollUntil, throwIfTimedOut } from '../../src/cli/runtime/wait.ts'
import { addWatchFlag, runOrWatch, type WatchFlag } from '../../src/cli/runtime/watch.ts'
import type { OcrStatus } from '../../src/client/client.ts'
import type { Priority } from '../../src/jobs/queue.ts'
import { dms } from '../../src/log/fix.ts'
import { cancel } from './cancel.ts'
import { list } from './list.ts'
import { retry } from './retry.ts'

export const ocr = (cli: Cli) => group('ocr', 'Manage the OCR queue', [queue(cli)])

/** `dms ocr queue` is a group, and without a subcommand it runs `status`. */
function queue(cli: Cli): Command {
  const command = manual('queue', {
    summary: 'Show and change the OCR queue',
    examples: [
      ['ocr queue', 'number of jobs by state'],
      ['ocr queue list --status failed', 'failed jobs with their errors'],
      ['ocr queue retry --failed', 'run OCR on them again'],
      ['ocr queue wait --timeout 1h', 'until the queue is empty'],
    ],
  })
  for (const verb of [list, retry, cancel, prioritise, wait, pause, resume, recover]) command.addCommand(verb(cli))
  return command.addCommand(status(cli), { isDefault: true })
}

const columns: Column<OcrStatus>[] = [
  ...columnsOf(['pending', 'processing'], { align: 'right' }),
  { name: 'completed_today', title: 'DONE_TODAY', align: 'right' },
  { name: 'failed', align: 'right' },
  { name: 'average_processing_time', title: 'AVG', align: 'right', value: (row) => row.average_processing_time.toFixed(1) },
  { name: 'estimated_completion', title: 'ETA' },
  { name: 'paused', value: ({ paused }) => (paused ? 'yes' : 'no') },
]

const status = (cli: Cli) =>
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
    .action(async (flags: { watch?: WatchFlag; maxPending?: string; maxFailed?: string }) => {
      const maxPending = parseLimit('--max-pending', flags.maxPending)
      const maxFailed = parseLimit('--max-failed', flags.maxFailed)
      await runOrWatch(cli, flags.watch, async () => {
        const client = await cli.client()
        return async () => {
          const status = await client.ocrQueue.status()
          cli.exit = status.pending > maxPending || status.failed > maxFailed ? 'PARTIAL' : 'OK'
          printStatus(cli, status, { isQuery: flags.maxPending === undefined && flags.maxFailed === undefined })
        }
      })
    })

/** Prints the status: the object of the API with -o json, else one line. */
function printStatus(cli: Cli, status: OcrStatus, shape: Pick<Shape<OcrStatus>, 'isQuery' | 'sentence'>): void {
  cli.print(cli.options.isJson ? status : [status], { columns, id: 'pending', ...shape })
}

function parseLimit(flag: string, limit: string | undefined): number {
  return limit === undefined ? Number.POSITIVE_INFINITY : parseCount(flag, limit, { min: 0 })
}

const pause = (cli: Cli) =>
  manual('pause', {
    summary: 'Pause the OCR queue',
    examples: [
      ['ocr queue pause', 'before a busy hour; uploads stay pending'],
      ['dms ocr queue pause && dms worker --once', 'run all other jobs'],
    ],
    exits: '0 paused, or was paused · 4 not signed in · 5 not an admin · 69 server unreachable',
    notes: [
      'No worker starts an OCR job until `dms ocr queue resume`. Running jobs finish.',
      '`dms ocr queue status` and the metric dms_ocr_paused show the state.',
    ],
  }).action(async () => {
    const client = await cli.client()
    printStatus(cli, await client.ocrQueue.pause(), {
      sentence: `✓ Paused the OCR queue; to resume it: ${cli.options.formatFix(dms`ocr queue resume`)}`,
    })
  })

const resume = (cli: Cli) =>
  manual('resume', {
    summary: 'Resume the OCR queue',
    examples: [['ocr queue resume', '']],
    exits: '0 resumed, or was not paused · 4 not signed in · 5 not an admin · 69 server unreachable',
  }).action(async () => {
    const client = await cli.client()
    printStatus(cli, await client.ocrQueue.resume(), { sentence: '✓ Resumed the OCR queue' })
  })

const prioritise = (cli: Cli) =>
  manual('prioritise <job...>', {
    summary: 'Change the priority of pending OCR jobs',
    examples: [
      ['ocr queue prioritise 0192f0c1-… --priority high', ''],
      ['dms ocr queue list --status pending -o id | dms ocr queue prioritise - --priority low', 'ids from a pipe'],
    ],
    exits: '0 changed · 3 some could not be changed · 6 no such job · 7 job is not pending',
  })
    .alias('prioritize')
    .addOption(new Option('--priority <priority>', 'new priority').choices(['low', 'normal', 'high', 'urgent']).makeOptionMandatory())
    .action(async (ids: string[], { priority }: { priority: Priority }) =>
      runIdBatch(cli, await readIds(ids), {
        command: 'ocr queue prioritise',
        phase: 'moving',
        action: 'updated',
        noun: 'OCR job',
        run: async (client, id) => ({ document_id: (await client.ocrQueue.prioritise(id, priority)).document_id, priority }),
      }),
    )

const wait = (cli: Cli) =>
  manual('wait', {
    summary: 'Wait until the OCR queue is empty',
    examples: [
      ['dms ocr queue wait --timeout 2h && dms documents list --since 1d', ''],
      ['dms documents upload -r scans -q && dms ocr queue wait', ''],
    ],
    exits: '0 empty · 3 some failed meanwhile · 8 --timeout passed · 69 server unreachable · 130 interrupted',
    notes: [inProcessWorkerNote],
  }).action(async () => {
    const client = await openClientWithWorker(cli, 'ocr queue wait')
    const before = await client.ocrQueue.status()
    if (before.paused) cli.warn(`warning: the OCR queue is paused; fix: ${cli.options.formatFix(dms`ocr queue resume`)}`)
    let now = before
    const progress = cli.progress('ocr')
    const total = before.pending + before.processing
    const isEmpty = await pollUntil(cli, async () => {
      now = await client.ocrQueue.status()
      const left = now.pending + now.processing
      progress.update({ done: Math.max(0, total - left), total })
      return left === 0
    })
    progress.done()
    if (now.failed > before.failed) cli.exit = 'PARTIAL'
    printStatus(cli, now, { isQuery: false })
    if (!isEmpty) throwIfTimedOut(cli, `${now.pending + now.processing} OCR jobs are unfinished`)
  })

const recover = (cli: Cli) =>
  manual('recover', {
    summary: 'Queue unfinished documents that have no OCR job',
    examples: [
      ['ocr queue recover', 'after a crash or a restore'],
      ['check --checks status,queue', 'only list them'],
    ],
    exits: '0 queued, or nothing to do · 4 not signed in · 5 not an admin · 69 server unreachable · 130 interrupted',
    notes: ['Finds documents in status pending or processing without a live job. Jobs of a crashed worker are taken over without this.'],
  }).action(async () => {
    const { ocrQueue } = await cli.client()
    const batch = startBatch(cli, 'ocr queue recover')
    while (!cli.signal.aborted) {
      const { recovered } = await ocrQueue.recover()
      for (const { document_id, job_id } of recovered) batch.add({ action: 'queued', key: document_id, id: job_id, document_id })
      if (recovered.length === 0) break
    }
    if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
    batch.finish()
  })
