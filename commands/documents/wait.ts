import { Option } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { mapSequential } from '../../src/cli/runtime/run-batch.ts'
import { inProcessWorkerNote, openClientWithWorker, throwIfTimedOut, waitForDocuments } from '../../src/cli/runtime/wait.ts'
import type { DocumentView } from '../../src/documents/view.ts'

type Row = Pick<DocumentView, 'id' | 'status' | 'title' | 'error'>

const columns: Column<Row>[] = [
  ...columnsOf(['id', 'status', 'title']),
  { name: 'error', value: ({ error }) => error && `${error.code}: ${error.message}` },
]

export const wait = (cli: Cli) =>
  manual('wait <id...>', {
    summary: 'Wait until OCR has finished and search finds documents',
    examples: [
      ['documents wait 0192f0c1-… --timeout 30m', ''],
      ['dms documents upload -r scans -o id | dms documents wait - && echo done', 'ids from a pipe'],
    ],
    exits:
      '0 all completed (with --for processed: or failed) · 3 a document failed · 6 no such document · 8 --timeout passed, or no worker runs · 130 interrupted',
    notes: [inProcessWorkerNote],
  })
    .addOption(
      new Option('--for <what>', 'completed: exit 3 if a document failed; processed: exit 0')
        .choices(['completed', 'processed'])
        .default('completed'),
    )
    .action(async (idArguments: string[], flags: { for: 'completed' | 'processed' }) => {
      const ids = (await readIds(idArguments)).map((id) => parseId(id, 'document'))
      const client = await openClientWithWorker(cli, 'documents wait')
      if (cli.options.printCurl) return void (await mapSequential(ids, (id) => client.documents.get(id)))
      const rows: Row[] = []
      const left = await waitForDocuments(cli, client, ids, (id, document) => {
        if (!document) throw new Failure('NOT_FOUND', `no document ${id}`)
        const { status, title, error } = document
        rows.push({ id, status, title, error })
      })
      for (const id of left) {
        const { status, title, error } = await client.documents.get(id, { content: false })
        rows.push({ id, status, title, error })
      }
      const hasFailed = flags.for === 'completed' && rows.some(({ status }) => status === 'failed')
      if (hasFailed) cli.exit = 'PARTIAL'
      cli.print(rows, { columns, isQuery: false })
      if (left.size > 0) throwIfTimedOut(cli, `${left.size} of ${ids.length} documents cannot be found by search yet`)
    })
