import type { Command } from 'commander'
import { findLabel } from '../../src/cli/arguments/labels.ts'
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
    summary: 'Change name, colour or description of a label',
    examples: [
      ['labels update invoices --name bills', ''],
      ["labels update urgent --colour '#ff0000'", ''],
    ],
    exits: '0 changed · 2 invalid value · 5 not the owner, and not an admin · 6 no such label · 7 name taken',
  })
    .option('--name <name>', 'new name')
    .option('--colour <#rrggbb>', 'new colour')
    .option('--description <text>', 'new description')
    .action(async (given: string, { colour: color, ...others }: Flags) => {
      const changes = { ...others, ...(color === undefined ? {} : { color }) }
      if (Object.keys(changes).length === 0) throw usage('nothing to change', 'pass --name, --colour or --description')
      const client = await cli.client()
      const { id } = await findLabel(client, given)
      const label = await client.labels.update(id, changes)
      cli.print(label, { columns: labelColumns, sentence: `✓ Updated label "${label.name}"` })
    })
