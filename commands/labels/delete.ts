import type { Command } from 'commander'
import { labelNamed } from '../../src/cli/arguments/labels.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { labelColumns } from './list.ts'

export const labelsDelete = (cli: Cli): Command =>
  manual('delete <label>', {
    summary: 'Delete a label (name or id); the documents stay.',
    examples: [
      ['labels delete inbox', 'asks first, and says how many documents have it'],
      ['labels delete inbox --yes', 'for a script'],
    ],
    exits: '0 deleted · 2 nobody could be asked, and no --yes · 5 not yours, and you are no admin · 6 no such label',
  })
    .alias('rm')
    .option('-y, --yes', 'do not ask')
    .action(async (given: string, { yes }: { yes?: boolean }) => {
      const client = await cli.client()
      const label = await labelNamed(client, given)
      const { name, document_count: count } = label
      if (!yes)
        await confirm(cli.options, `Delete the label "${name}", which ${count} document${count === 1 ? ' has' : 's have'}?`, '--yes')
      await client.labels.delete(label.id)
      cli.print(label, { columns: labelColumns, sentence: `✓ Label "${name}" deleted` })
    })
