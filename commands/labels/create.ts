import type { Command } from 'commander'
import { findLabel } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { ClientError } from '../../src/client/client.ts'
import { labelColumns } from './list.ts'

interface Flags {
  colour: string
  description?: string
  ifAbsent?: boolean
}

export const labelsCreate = (cli: Cli): Command =>
  manual('create <name>', {
    summary: 'Create a label',
    examples: [
      ['labels create invoices', ''],
      ["labels create urgent --colour '#cc0000' --description 'today'", ''],
      ['labels create inbox --if-absent -q', 'for a setup script'],
    ],
    exits: '0 created (or exists, with --if-absent) · 2 invalid value · 4 not signed in · 7 name taken',
  })
    .option('--colour <#rrggbb>', 'colour of the label (--color is for the terminal)', '#6b7280')
    .option('--description <text>', 'description')
    .option('--if-absent', 'succeed if a label of this name exists')
    .action(async (name: string, { colour: color, description, ifAbsent }: Flags) => {
      const client = await cli.client()
      const created = await client.labels
        .create({ name, color, ...(description === undefined ? {} : { description }) })
        .catch((error: ClientError) => {
          if (ifAbsent && error.code === 'DUPLICATE_RESOURCE') return null
          throw error
        })
      const label = created ?? (await findLabel(client, name))
      const sentence = created ? `✓ Created label "${label.name}" (id ${label.id})` : `✓ Label "${label.name}" exists (id ${label.id})`
      cli.print(label, { columns: labelColumns, sentence })
    })
