import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { findLabel } from '../../src/cli/arguments/labels.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const labelsAssign = (cli: Cli): Command =>
  manual('assign <label> <id...>', {
    summary: 'Add a label to documents',
    examples: [
      ['labels assign invoices 0192f0c1-…', ''],
      ['dms search query telecom -o id | dms labels assign telecom -', 'ids from a pipe'],
    ],
    exits: '0 added, or were labelled · 6 no such label or document; nothing was changed',
  }).action(async (given: string, documents: string[]) => {
    const ids = (await readIds(documents)).map((id) => parseId(id, 'document'))
    const client = await cli.client()
    const label = await findLabel(client, given)
    const assigned = ids.length === 0 ? 0 : (await client.labels.assign(label.id, ids)).assigned
    cli.print(
      { id: label.id, label: label.name, documents: ids.length, changed: assigned },
      {
        columns: [{ name: 'label' }, { name: 'documents' }, { name: 'changed' }],
        sentence: `✓ Added label "${label.name}" to ${assigned} of ${ids.length} documents`,
      },
    )
  })
