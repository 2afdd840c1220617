import { type Command, Option } from 'commander'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { allSourceColumns, sourceNamed } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

interface Flags {
  documents: 'keep' | 'delete'
  yes?: boolean
}

export const sourcesRemove = (cli: Cli): Command =>
  manual('remove <source>', {
    summary: 'Remove a source; its documents stay unless told otherwise.',
    examples: [
      ['sources remove invoices', 'asks'],
      ['sources remove invoices --documents delete -y', 'with all that came from it'],
    ],
    exits: '0 removed · 2 nobody could be asked, and no --yes · 6 no such source',
  })
    .alias('rm')
    .addOption(new Option('--documents <what>', 'what becomes of what came from it').choices(['keep', 'delete']).default('keep'))
    .option('-y, --yes', 'do not ask')
    .action(async (given: string, { documents, yes }: Flags) => {
      const client = await cli.client()
      const source = await sourceNamed(client, given)
      const what =
        documents === 'delete' ? `and delete its ${source.document_count} documents` : `and keep its ${source.document_count} documents`
      if (!yes) await confirm(cli.options, `Remove source "${source.name}" ${what}?`, '--yes')
      await client.sources.delete(source.id, { documents })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Source "${source.name}" is removed` })
    })
