import { type Command, Option } from 'commander'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { allSourceColumns, findSource } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

interface Flags {
  documents: 'keep' | 'delete'
  yes?: boolean
}

export const sourcesRemove = (cli: Cli): Command =>
  manual('remove <source>', {
    summary: 'Remove a source',
    examples: [
      ['sources remove invoices', 'asks first; keeps the documents'],
      ['sources remove invoices --documents delete -y', 'also deletes its documents'],
    ],
    exits: '0 removed · 2 no terminal to confirm on, and no --yes · 6 no such source',
  })
    .alias('rm')
    .addOption(new Option('--documents <what>', 'keep or delete its documents').choices(['keep', 'delete']).default('keep'))
    .option('-y, --yes', 'remove without asking')
    .action(async (given: string, { documents, yes }: Flags) => {
      const client = await cli.client()
      const source = await findSource(client, given)
      const consequence =
        documents === 'delete' ? `and delete its ${source.document_count} documents` : `and keep its ${source.document_count} documents`
      if (!yes) await confirm(cli.options, `Remove source "${source.name}" ${consequence}?`, '--yes')
      await client.sources.delete(source.id, { documents })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Removed source "${source.name}"` })
    })
