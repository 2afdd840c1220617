import { type Command, Option } from 'commander'
import { idOf, idsFrom } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { asksOf } from '../../src/cli/remote/curl-printing.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { workThrough } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'
import { pathOf } from '../../src/client/connection.ts'
import type { Priority } from '../../src/jobs/queue.ts'

interface Flags {
  failed?: boolean
  document: string[]
  language?: string
  priority: Priority
  yes?: boolean
  dryRun?: boolean
}

/** A document to be read again; `key` is the id that was given. */
interface Again {
  key: string
  /** null: to be found by the job `key` */
  document: string | null
}

/** More than these are not queued without a question. */
const unasked = 100

const several = (value: string, before: string[]): string[] => [...before, value]

export const ocrQueueRetry = (cli: Cli): Command =>
  manual('retry [job...]', {
    summary: 'Read documents again.',
    examples: [
      ['ocr queue retry 0192f0c1-…', 'the document of this job'],
      ['ocr queue retry --document 0192f0c1-… --language deu+eng', 'this document, in other languages'],
      ['ocr queue retry --failed --yes', 'all that failed, from cron'],
      ['dms ocr queue list --status failed -o id | dms ocr queue retry -', 'ids from a pipe'],
    ],
    exits: '0 queued · 2 nobody could be asked, and no --yes · 3 some could not be queued · 6 no such job or document · 7 is being read',
    notes: [`Asks before more than ${unasked} documents are queued.`],
  })
    .option('--failed', 'all documents whose reading failed')
    .option('--document <id>', 'this document; again for more', several, [])
    .option('--language <codes>', 'of the text: eng, or deu+eng (default: as before)')
    .addOption(new Option('--priority <priority>').choices(['low', 'normal', 'high', 'urgent']).default('normal'))
    .option('-y, --yes', 'do not ask')
    .option('-n, --dry-run', 'say what would be queued')
    .action(async (given: string[], flags: Flags) => {
      const { failed, document, language, priority, dryRun } = flags
      if (!failed && document.length === 0 && given.length === 0)
        throw usage('nothing to retry', 'name jobs, or pass --document or --failed')
      const jobs = await idsFrom(given)
      const client = await cli.client()
      const things: Again[] = [
        ...jobs.map((key) => ({ key, document: null })),
        ...document.map((key) => ({ key, document: key })),
        ...(failed ? await failedDocuments(client) : []),
      ]
      if (things.length > unasked && !flags.yes && !dryRun) await confirm(cli.options, `Read ${things.length} documents again?`, '--yes')
      await workThrough(cli, {
        command: 'ocr queue retry',
        phase: 'queueing',
        things,
        keyOf: ({ key }) => key,
        isDryRun: dryRun === true,
        async run({ key, document }) {
          const id = document === null ? await documentOf(client, idOf(key, 'OCR job')) : idOf(document, 'document')
          if (dryRun) return { action: 'queued', key, document_id: (await client.documents.get(id)).id }
          const { job_id } = await client.documents.retryOcr(id, { language, priority })
          return { action: 'queued', key, id: job_id, document_id: id }
        },
      })
    })

async function documentOf(client: Client, job: string): Promise<string> {
  const asks = asksOf(client)
  return asks
    ? asks({ path: pathOf('ocr', 'queue', job), filter: '.document_id', into: 'document' })
    : (await client.ocrQueue.get(job)).document_id
}

/** Those that failed and have an OCR job to be repeated, whatever became of other jobs of theirs. */
async function failedDocuments(client: Client): Promise<Again[]> {
  const failed = new Set<string>()
  for await (const { id } of client.documents.list({ status: 'failed', fields: 'id' })) failed.add(id)
  const found = new Set<string>()
  for await (const { document_id: id } of client.ocrQueue.list({ status: 'failed,cancelled' })) if (failed.has(id)) found.add(id)
  return [...found].map((id) => ({ key: id, document: id }))
}
