import { type Command, Option } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import { isFinished } from '../../src/cli/runtime/wait.ts'
import type { Priority } from '../../src/jobs/queue.ts'
import { escapeControls } from '../../src/log/escape.ts'
import { dms } from '../../src/log/fix.ts'
import { docs, withAliasInUsage } from '../docs.ts'
import { remove, undelete } from './delete.ts'
import { download, thumbnail } from './download.ts'
import { exportDocuments } from './export.ts'
import { get, list } from './list.ts'
import { update } from './update.ts'
import { upload } from './upload.ts'
import { replace, restore, versions } from './versions.ts'
import { wait } from './wait.ts'
import { watch } from './watch.ts'

export function documents(cli: Cli, loadAll: () => Promise<Command>): Command {
  const verbs = [
    ...[upload, watch, list, get, text, download, thumbnail, update, replace, versions, restore],
    ...[remove, undelete, exportDocuments, retryOcr, wait],
  ]
  const command = group(
    'documents',
    'Manage documents',
    verbs.map((verb) => verb(cli)),
  ).alias('docs')
  for (const verb of docs(cli, loadAll)) command.addCommand(withAliasInUsage(verb), { hidden: true })
  return command
}

const text = (cli: Cli) =>
  manual('text <id>', {
    summary: 'Print the extracted text of a document',
    examples: [
      ['documents text 0192f0c1-… | grep -i total', ''],
      ['documents text 0192f0c1-… > contract.txt', ''],
      ['documents text 0192f0c1-… -o json | jq -r .content', 'for a script'],
    ],
    exits: '0 printed · 3 OCR failed; partial text was printed · 6 no such document · 8 OCR has not finished',
  }).action(async (documentId: string) => {
    rejectOutputFlags(cli.options, 'the text is printed as it is')
    const client = await cli.client()
    const id = parseId(documentId, 'document')
    if (cli.options.printCurl) return void (await client.documents.text(id))
    const document = await client.documents.get(id)
    const { status, error, content = '' } = document
    if (!isFinished(document))
      throw new Failure('PENDING', `document ${id} has no text yet: it is ${status}`, { fix: dms`documents wait ${id}` })
    const { isJson, isTerminal } = cli.options
    if (isJson) cli.print({ id, status, content }, { columns: [] })
    else cli.write(isTerminal ? escapeText(content) : content)
    if (status === 'failed')
      throw new Failure('PARTIAL', `OCR of document ${id} failed: ${error?.message}`, { details: { code: error?.code } })
  })

/** Escapes control characters except line breaks and tabs. */
const escapeText = (text: string): string =>
  `${text
    .split(/\r?\n|\f/)
    .map((line) => line.split('\t').map(escapeControls).join('\t'))
    .join('\n')}\n`

const retryOcr = (cli: Cli) =>
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
    .option('--language <codes>', 'languages: auto, eng, deu+eng (default: as before)')
    .addOption(new Option('--priority <priority>', 'priority of the jobs').choices(['low', 'normal', 'high', 'urgent']).default('normal'))
    .action(async (ids: string[], { language, priority }: { language?: string; priority: Priority }) =>
      runIdBatch(cli, await readIds(ids), {
        command: 'documents retry-ocr',
        phase: 'queueing',
        action: 'queued',
        noun: 'document',
        run: async ({ documents }, id) => ({ job_id: (await documents.retryOcr(id, { language, priority })).job_id }),
      }),
    )
