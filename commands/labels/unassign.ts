import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { findLabel } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const labelsUnassign = (cli: Cli): Command =>
  manual('unassign <label> <id...>', {
    summary: 'Remove a label from documents',
    examples: [
      ['labels unassign invoices 0192f0c1-…', ''],
      ['dms documents list --label inbox --all -o id | dms labels unassign inbox -', 'ids from a pipe'],
    ],
    exits: '0 removed, or were not labelled · 6 no such label or document; nothing was changed',
  }).action(async (given: string, documents: string[]) => {
    const ids = (await readIds(documents)).map((id) => parseId(id, 'document'))
    const client = await cli.client()
    const label = await findLabel(client, given)
    const assigned = ids.length === 0 ? 0 : (await client.labels.unassign(label.id, ids)).assigned
    cli.print(
      { id: label.id, label: label.name, documents: ids.length, changed: assigned },
      {
        columns: [{ name: 'label' }, { name: 'documents' }, { name: 'changed' }],
        sentence: `✓ Removed label "${label.name}" from ${assigned} of ${ids.length} documents`,
      },
    )
  })
