import type { Command } from 'commander'
import { findLabel } from '../../src/cli/arguments/labels.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { labelColumns } from './list.ts'

export const labelsDelete = (cli: Cli): Command =>
  manual('delete <label>', {
    summary: 'Delete a label and keep its documents',
    examples: [
      ['labels delete inbox', 'asks first, with the number of documents'],
      ['labels delete inbox --yes', 'for a script'],
    ],
    exits: '0 deleted · 2 no terminal to confirm on, and no --yes · 5 not the owner, and not an admin · 6 no such label',
  })
    .alias('rm')
    .option('-y, --yes', 'delete without asking')
    .action(async (given: string, { yes }: { yes?: boolean }) => {
      const client = await cli.client()
      const label = await findLabel(client, given)
      const { name, document_count: count } = label
      if (!yes) await confirm(cli.options, `Delete label "${name}" of ${count} document${count === 1 ? '' : 's'}?`, '--yes')
      await client.labels.delete(label.id)
      cli.print(label, { columns: labelColumns, sentence: `✓ Deleted label "${name}"` })
    })
