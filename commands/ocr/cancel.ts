import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'

interface Flags {
  pending?: boolean
  yes?: boolean
  dryRun?: boolean
}

export const ocrQueueCancel = (cli: Cli): Command =>
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
    .action(async (given: string[], { pending, yes, dryRun }: Flags) => {
      if (!pending && given.length === 0) throw usage('no job given', 'pass job ids, or --pending')
      const named = await readIds(given)
      const client = await cli.client()
      const pendingIds = pending ? await pendingJobs(client) : []
      if (pendingIds.length > 0 && !yes && !dryRun) await confirm(cli.options, `Cancel all ${pendingIds.length} pending OCR jobs?`, '--yes')
      await runBatch(cli, {
        command: 'ocr queue cancel',
        phase: 'cancelling',
        items: [...new Set([...named, ...pendingIds])],
        keyOf: (id) => id,
        isDryRun: dryRun === true,
        async run(key) {
          const id = parseId(key, 'OCR job')
          if (dryRun) await client.ocrQueue.get(id)
          else await client.ocrQueue.cancel(id)
          return { action: 'cancelled', key, id }
        },
      })
    })

async function pendingJobs(client: Client): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of client.ocrQueue.list({ status: 'pending' })) ids.push(id)
  return ids
}
