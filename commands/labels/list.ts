import type { Command } from 'commander'
import type { Label } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const labelColumns: Column<Label>[] = [
  { name: 'id', show: 'wide' },
  { name: 'name' },
  { name: 'color' },
  { name: 'document_count', title: 'DOCUMENTS', align: 'right' },
  { name: 'created_by' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'description', show: 'wide' },
]

export const labelsList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List labels with their number of documents',
    examples: [
      ['labels list', ''],
      ["labels list -o json | jq -r '.[] | select(.document_count == 0) | .name'", 'unused labels'],
      ['labels list --fields name,document_count -o csv', ''],
    ],
    exits: '0 listed · 4 not signed in · 69 server unreachable',
  })
    .alias('ls')
    .action(async () => {
      const client = await cli.client()
      cli.print(await client.labels.list(), { columns: labelColumns })
    })
