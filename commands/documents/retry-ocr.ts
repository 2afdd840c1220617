import { type Command, Option } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Priority } from '../../src/jobs/queue.ts'

interface Flags {
  language?: string
  priority: Priority
}

export const documentsRetryOcr = (cli: Cli): Command =>
  manual('retry-ocr <id...>', {
    summary: 'Run OCR on documents again',
    examples: [
      ['documents retry-ocr 0192f0c1-… --language deu+eng', ''],
      ['dms documents list --status failed --all -o id | dms documents retry-ocr -', 'ids from a pipe'],
      ['ocr queue retry --failed', 'all failed documents'],
    ],
    exits:
      '0 queued · 2 language not installed · 3 some could not be queued · 6 no such document · 7 OCR is running · 69 server unreachable',
  })
    .option('--language <codes>', 'languages of the text, e.g. eng or deu+eng (default: as before)')
    .addOption(new Option('--priority <priority>', 'priority of the jobs').choices(['low', 'normal', 'high', 'urgent']).default('normal'))
    .action(async (given: string[], { language, priority }: Flags) => {
      const ids = await readIds(given)
      const { documents } = await cli.client()
      await runBatch(cli, {
        command: 'documents retry-ocr',
        phase: 'queueing',
        items: ids,
        keyOf: (id) => id,
        async run(key) {
          const id = parseId(key, 'document')
          const { job_id } = await documents.retryOcr(id, { language, priority })
          return { action: 'queued', key, id, job_id }
        },
      })
    })
