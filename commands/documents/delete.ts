import { readIds } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'

interface Flags {
  permanent?: boolean
  yes?: boolean
  dryRun?: boolean
}

export const remove = (cli: Cli) =>
  manual('delete <id...>', {
    summary: 'Move documents to the trash',
    examples: [
      ['documents delete 0192f0c1-…', 'back with `documents undelete`'],
      ['dms documents list --status failed --all -o id | dms documents delete -', 'ids from a pipe'],
      ['documents delete 0192f0c1-… --permanent', 'destroys it; asks first'],
      ['documents delete -n 0192f0c1-…', 'dry run'],
    ],
    exits:
      '0 deleted · 2 no terminal to confirm on, and no --yes · 3 some could not be deleted · 6 no such document · 7 under retention or hold',
    notes: [
      'The trash keeps documents for documents.trash_days: dms trash list. With --permanent, or where the server has no trash, documents are destroyed with text, comments and links. --permanent also takes documents in the trash.',
    ],
  })
    .alias('rm')
    .option('--permanent', 'destroy the documents, also those in the trash')
    .option('-y, --yes', 'destroy without asking')
    .option('-n, --dry-run', 'list what would be deleted')
    .action(async (idArguments: string[], { permanent, yes, dryRun }: Flags) => {
      const ids = await readIds(idArguments)
      const client = await cli.client()
      const subject = ids.length === 1 ? `document ${ids[0]}` : `${ids.length} documents`
      const asks = !yes && !dryRun && !cli.options.printCurl && ids.length > 0
      if (asks && (permanent || (await client.trash.page({ per_page: 1 })).trash_days === 0))
        await confirm(cli.options, `Delete ${subject} permanently?`)
      const batch = {
        command: 'documents delete',
        phase: 'deleting',
        action: 'deleted',
        noun: 'document',
        isDryRun: dryRun,
        async run({ documents }: typeof client, id: string) {
          const query = permanent ? { permanent } : {}
          if (dryRun) await documents.checkDeletion(id, query)
          else await documents.delete(id, query)
        },
      }
      await runIdBatch(cli, ids, batch, client)
    })

export const undelete = (cli: Cli) =>
  manual('undelete <id...>', {
    summary: 'Move documents out of the trash',
    examples: [
      ['documents undelete 0192f0c1-…', ''],
      ['dms trash list --all -o id | dms documents undelete -', 'ids from a pipe'],
    ],
    exits: '0 restored · 3 some could not be restored · 6 no such document · 7 not in the trash · 69 server unreachable',
  }).action(async (ids: string[]) =>
    runIdBatch(cli, await readIds(ids), {
      command: 'documents undelete',
      phase: 'restoring',
      action: 'restored',
      noun: 'document',
      run: async ({ documents }, id) => void (await documents.undelete(id)),
    }),
  )
