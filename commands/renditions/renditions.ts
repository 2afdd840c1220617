import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { type BatchItem, errorColumn } from '../../src/cli/output/batch-output.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf, pluralize } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

export const renditions = (cli: Cli) => group('renditions', 'Make searchable PDF/A files of documents', [make(cli), status(cli)])

const columns: Column<BatchItem>[] = [...columnsOf(['id', 'action', 'version', 'state']), errorColumn]

const make = (cli: Cli) =>
  manual('make [id...]', {
    summary: 'Make PDF/A renditions of documents',
    examples: [
      ['renditions make 0192f0c1-…', 'of one document; again if it failed'],
      ['renditions make --missing', 'of all images and PDFs that have none'],
      ['dms documents list --label tax -o id | dms renditions make -', 'of many documents'],
    ],
    exits: '0 requested · 3 some failed · 4 not signed in · 6 no such document · 69 server unreachable',
    notes: [
      'Workers make them: dms renditions status. Download: dms documents download ID --rendition pdfa',
      'A rendition has the pages of the current version and the words of OCR as invisible text. The original stays as it is.',
      'With --missing, an admin requests those of all users. Files that cannot be converted are not tried again.',
    ],
  })
    .option('--missing', 'all images and PDFs without a rendition')
    .action(async (idArguments: string[], { missing = false }: { missing?: boolean }) => {
      if (missing === idArguments.length > 0) throw usage(missing ? 'pass ids or --missing, not both' : 'pass ids, or --missing')
      const client = await cli.client()
      if (missing) {
        const { queued } = await client.renditions.makeMissing('pdfa')
        const sentence = `✓ Requested ${pluralize(queued, 'rendition')}`
        return cli.print({ queued }, { columns: [{ name: 'queued', align: 'right' }], sentence })
      }
      await runBatch(cli, {
        command: 'renditions make',
        phase: 'request',
        items: await readIds(idArguments),
        columns,
        run: async (argument) => {
          const id = parseId(argument, 'document')
          const { number, state } = await client.documents.makeRendition(id, 'pdfa')
          return { key: id, id, action: state === 'completed' ? 'unchanged' : 'queued', version: number, state }
        },
      })
    })

const status = (cli: Cli) =>
  manual('status', {
    summary: 'Count renditions by state',
    examples: [['renditions status', 'yours; as an admin, those of all users']],
    exits: '0 counted · 4 not signed in · 69 server unreachable',
    notes: ['refused: the file cannot be converted, for the reason in GET /api/documents/ID/renditions.'],
  }).action(async () => {
    const client = await cli.client()
    const counts = columnsOf(['pending', 'completed', 'failed', 'refused', 'missing'], { align: 'right' })
    cli.print(await client.renditions.status(), { columns: [{ name: 'kind' }, ...counts] })
  })
