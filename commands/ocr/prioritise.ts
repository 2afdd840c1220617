import { type Command, Option } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Priority } from '../../src/jobs/queue.ts'

export const ocrQueuePrioritise = (cli: Cli): Command =>
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
    .action(async (given: string[], { priority }: { priority: Priority }) => {
      const jobs = await readIds(given)
      const { ocrQueue } = await cli.client()
      await runBatch(cli, {
        command: 'ocr queue prioritise',
        phase: 'moving',
        items: jobs,
        keyOf: (id) => id,
        async run(key) {
          const { id, document_id } = await ocrQueue.prioritise(parseId(key, 'OCR job'), priority)
          return { action: 'updated', key, id, document_id, priority }
        },
      })
    })
