import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

interface Flags {
  yes?: boolean
  dryRun?: boolean
}

export const documentsDelete = (cli: Cli): Command =>
  manual('delete <id...>', {
    summary: 'Delete documents with text, comments and links',
    examples: [
      ['documents delete 0192f0c1-…', 'asks first'],
      ['dms documents list --status failed --all -o id | dms documents delete - --yes', 'ids from a pipe'],
      ['documents delete -n 0192f0c1-…', 'dry run'],
    ],
    exits: '0 deleted · 2 no terminal to confirm on, and no --yes · 3 some could not be deleted · 6 no such document',
    notes: ['Deletion is final: there is no trash.'],
  })
    .alias('rm')
    .option('-y, --yes', 'delete without asking')
    .option('-n, --dry-run', 'list what would be deleted')
    .action(async (given: string[], { yes, dryRun }: Flags) => {
      const ids = await readIds(given)
      const subject = ids.length === 1 ? `document ${ids[0]}` : `${ids.length} documents`
      if (!yes && !dryRun && ids.length > 0) await confirm(cli.options, `Delete ${subject} permanently?`, '--yes')
      const { documents } = await cli.client()
      await runBatch(cli, {
        command: 'documents delete',
        phase: 'deleting',
        items: ids,
        keyOf: (id) => id,
        isDryRun: dryRun === true,
        async run(given) {
          const id = parseId(given, 'document')
          if (dryRun) await documents.get(id)
          else await documents.delete(id)
          return { action: 'deleted', key: given, id }
        },
      })
    })
