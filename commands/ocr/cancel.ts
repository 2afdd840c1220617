import { readIds } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'

export const cancel = (cli: Cli) =>
  manual('cancel [job...]', {
    summary: 'Cancel OCR jobs',
    examples: [
      ['ocr queue cancel 0192f0c1-…', 'a pending or running job'],
      ['ocr queue cancel --pending', 'all pending jobs; asks first'],
      ['dms ocr queue list --status pending -o id | dms ocr queue cancel -', 'ids from a pipe'],
    ],
    exits: '0 cancelled · 2 no terminal to confirm on, and no --yes · 3 some could not be cancelled · 6 no such job · 7 job has finished',
    notes: ['The documents get the status "failed". To queue them again: dms ocr queue retry.'],
  })
    .option('--pending', 'all pending jobs, but no running ones')
    .option('-y, --yes', 'cancel without asking')
    .option('-n, --dry-run', 'list what would be cancelled')
    .action(async (jobs: string[], { pending, yes, dryRun }: { pending?: boolean; yes?: boolean; dryRun?: boolean }) => {
      if (!pending && jobs.length === 0) throw usage('no job given', 'pass job ids, or --pending')
      const ids = await readIds(jobs)
      const client = await cli.client()
      const pendingIds = pending ? await Array.fromAsync(client.ocrQueue.list({ status: 'pending' }), ({ id }) => id) : []
      if (pendingIds.length > 0 && !yes && !dryRun) await confirm(cli.options, `Cancel all ${pendingIds.length} pending OCR jobs?`)
      const batch = { command: 'ocr queue cancel', phase: 'cancelling', action: 'cancelled', noun: 'OCR job', isDryRun: dryRun }
      const run = async ({ ocrQueue }: Client, id: string) => void (await (dryRun ? ocrQueue.get(id) : ocrQueue.cancel(id)))
      await runIdBatch(cli, [...new Set([...ids, ...pendingIds])], { ...batch, run }, client)
    })
