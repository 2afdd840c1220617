import type { Command } from 'commander'
import { labelNamed } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { labelColumns } from './list.ts'

interface Flags {
  name?: string
  colour?: string
  description?: string
}

export const labelsUpdate = (cli: Cli): Command =>
  manual('update <label>', {
    summary: 'Change a label (name or id); documents keep it.',
    examples: [
      ['labels update invoices --name bills', ''],
      ["labels update urgent --colour '#ff0000'", ''],
    ],
    exits: '0 changed · 2 something is not allowed · 5 not yours, and you are no admin · 6 no such label · 7 the name is taken',
  })
    .option('--name <name>', 'another name')
    .option('--colour <#rrggbb>', 'another colour')
    .option('--description <text>', 'what it is for')
    .action(async (given: string, { colour: color, ...others }: Flags) => {
      const changes = { ...others, ...(color === undefined ? {} : { color }) }
      if (Object.keys(changes).length === 0) throw usage('nothing to change', 'pass --name, --colour or --description')
      const client = await cli.client()
      const { id } = await labelNamed(client, given)
      const label = await client.labels.update(id, changes)
      cli.print(label, { columns: labelColumns, sentence: `✓ Label "${label.name}" changed` })
    })
