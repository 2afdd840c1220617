import { Option } from 'commander'
import { collectValues } from '../../src/cli/arguments/flag-values.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { lookupPrinterOf } from '../../src/cli/remote/curl-lookup.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'
import { pathOf } from '../../src/client/http/connection.ts'
import type { Priority } from '../../src/jobs/queue.ts'

interface Flags {
  failed?: boolean
  document: string[]
  language?: string
  priority: Priority
  yes?: boolean
  dryRun?: boolean
}

/** A document to run OCR on again. */
interface Target {
  /** The id from the command line: of a job or of a document. */
  key: string
  /** Id of the document; null if `key` is the id of its job. */
  document: string | null
}

/** Maximum number of documents that are queued without confirmation. */
const maxUnconfirmed = 100

export const retry = (cli: Cli) =>
  manual('retry [job...]', {
    summary: 'Run OCR on documents again',
    examples: [
      ['ocr queue retry 0192f0c1-…', 'the document of this job'],
      ['ocr queue retry --document 0192f0c1-… --language deu+eng', 'a document, in other languages'],
      ['ocr queue retry --failed --yes', 'all failed documents, from cron'],
      ['dms ocr queue list --status failed -o id | dms ocr queue retry -', 'ids from a pipe'],
    ],
    exits:
      '0 queued · 2 no terminal to confirm on, and no --yes · 3 some could not be queued · 6 no such job or document · 7 OCR is running',
    notes: [`Asks before it queues more than ${maxUnconfirmed} documents.`],
  })
    .option('--failed', 'all failed documents')
    .option('--document <id>', 'this document; repeatable', collectValues, [])
    .option('--language <codes>', 'languages: auto, eng, deu+eng (default: as before)')
    .addOption(new Option('--priority <priority>', 'priority of the jobs').choices(['low', 'normal', 'high', 'urgent']).default('normal'))
    .option('-y, --yes', 'queue without asking')
    .option('-n, --dry-run', 'list what would be queued')
    .action(async (ids: string[], flags: Flags) => {
      const { failed, document, language, priority, dryRun } = flags
      if (!failed && document.length === 0 && ids.length === 0) throw usage('no document given', 'pass job ids, --document or --failed')
      const jobs = await readIds(ids)
      const client = await cli.client()
      const targets: Target[] = [
        ...jobs.map((key) => ({ key, document: null })),
        ...document.map((key) => ({ key, document: key })),
        ...(failed ? await failedDocuments(client) : []),
      ]
      if (targets.length > maxUnconfirmed && !flags.yes && !dryRun)
        await confirm(cli.options, `Run OCR on ${targets.length} documents again?`)
      await runBatch(cli, {
        command: 'ocr queue retry',
        phase: 'queueing',
        items: targets,
        keyOf: ({ key }) => key,
        isDryRun: dryRun,
        async run({ key, document }) {
          const id = document === null ? await documentIdOfJob(client, parseId(key, 'OCR job')) : parseId(document, 'document')
          if (dryRun) return { action: 'queued', key, document_id: (await client.documents.get(id, { content: false })).id }
          const { job_id } = await client.documents.retryOcr(id, { language, priority })
          return { action: 'queued', key, id: job_id, document_id: id }
        },
      })
    })

async function documentIdOfJob(client: Client, job: string): Promise<string> {
  const asks = lookupPrinterOf(client)
  return asks
    ? asks({ path: pathOf('ocr', 'queue', job), filter: '.document_id', variable: 'document' })
    : (await client.ocrQueue.get(job)).document_id
}

/** Returns the failed documents that have a failed or cancelled OCR job. */
async function failedDocuments(client: Client): Promise<Target[]> {
  const failed = new Set(await Array.fromAsync(client.documents.list({ status: 'failed', fields: 'id' }), ({ id }) => id))
  const documents = await Array.fromAsync(client.ocrQueue.list({ status: 'failed,cancelled' }), ({ document_id }) => document_id)
  const ids = new Set(documents.filter((id) => failed.has(id)))
  return [...ids].map((id) => ({ key: id, document: id }))
}
