import type { Command } from 'commander'
import { idOf, idsFrom } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { workThrough } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'

interface Flags {
  pending?: boolean
  yes?: boolean
  dryRun?: boolean
}

export const ocrQueueCancel = (cli: Cli): Command =>
  manual('cancel [job...]', {
    summary: 'Take OCR jobs out of the queue; their documents are "failed" until they are read again.',
    examples: [
      ['ocr queue cancel 0192f0c1-…', 'one that waits or runs'],
      ['ocr queue cancel --pending', 'all that wait; asks first'],
      ['dms ocr queue list --status pending -o id | dms ocr queue cancel -', 'ids from a pipe'],
    ],
    exits: '0 cancelled · 2 nobody could be asked, and no --yes · 3 some could not be cancelled · 6 no such job · 7 is finished already',
    notes: ['`dms ocr queue retry` brings them back.'],
  })
    .option('--pending', 'all that wait; what runs is left alone')
    .option('-y, --yes', 'do not ask')
    .option('-n, --dry-run', 'say what would be cancelled')
    .action(async (given: string[], { pending, yes, dryRun }: Flags) => {
      if (!pending && given.length === 0) throw usage('nothing to cancel', 'name jobs, or pass --pending')
      const named = await idsFrom(given)
      const client = await cli.client()
      const waiting = pending ? await pendingJobs(client) : []
      if (waiting.length > 0 && !yes && !dryRun) await confirm(cli.options, `Cancel all ${waiting.length} OCR jobs that wait?`, '--yes')
      await workThrough(cli, {
        command: 'ocr queue cancel',
        phase: 'cancelling',
        things: [...new Set([...named, ...waiting])],
        keyOf: (id) => id,
        isDryRun: dryRun === true,
        async run(key) {
          const id = idOf(key, 'OCR job')
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
