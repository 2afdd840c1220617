import { confirm } from '../../src/cli/arguments/prompt.ts'
import { findOwnerId } from '../../src/cli/arguments/users.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf, pluralize } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { DocumentView } from '../../src/documents/view.ts'

const columns: Column<DocumentView>[] = [
  ...columnsOf(['id', 'title', 'deleted_at', 'purge_at']),
  { name: 'size', align: 'right' },
  ...columnsOf(['owner', 'filename', 'sha256'], { show: 'wide' }),
]

export const trash = (cli: Cli) => group('trash', 'List deleted documents and empty the trash', [list(cli), empty(cli)])

const list = (cli: Cli) =>
  addLimitFlags(
    manual('list', {
      summary: 'List documents in the trash, last deleted first',
      examples: [
        ['trash list', 'the last 50'],
        ['dms trash list --all -o id | dms documents undelete -', 'restore all'],
        ['trash list --owner ada', 'of one user, as an admin'],
      ],
      exits: '0 listed · 4 not signed in · 6 no such owner · 69 server unreachable',
      notes: ['Documents are destroyed at PURGE_AT, unless a hold keeps them. Restore: dms documents undelete ID'],
    })
      .alias('ls')
      .option('--owner <user>', 'only of this user (name or id); for admins'),
  ).action(async (flags: ListFlags & { owner?: string }) => {
    const limit = parseLimit(flags)
    const client = await cli.client()
    const owner = flags.owner === undefined ? undefined : await findOwnerId(client, flags.owner)
    await printList(cli, client.trash.list({ owner, per_page: Math.min(limit, 100) }), limit, { columns })
  })

const empty = (cli: Cli) =>
  manual('empty', {
    summary: 'Destroy the documents in the trash',
    examples: [
      ['trash empty', 'asks first'],
      ['trash empty --owner ada --yes', 'of one user, as an admin'],
      ['trash empty -n', 'dry run'],
    ],
    exits: '0 emptied · 2 no terminal to confirm on, and no --yes · 4 not signed in · 6 no such owner · 69 server unreachable',
    notes: ['Empties your trash; as an admin, that of all users. Documents under retention or hold stay.'],
  })
    .option('--owner <user>', 'only of this user (name or id); for admins')
    .option('-y, --yes', 'destroy without asking')
    .option('-n, --dry-run', 'count what would be destroyed')
    .action(async (flags: { owner?: string; yes?: boolean; dryRun?: boolean }) => {
      const client = await cli.client()
      const owner = flags.owner === undefined ? undefined : await findOwnerId(client, flags.owner)
      const isDryRun = flags.dryRun === true
      const print = (answer: { purged: number; retained: number }, verb: string) => {
        const kept = answer.retained === 0 ? '' : `; under retention or hold: ${answer.retained}, kept`
        const sentence = `${verb} ${pluralize(answer.purged, 'document')}${kept}`
        cli.print({ ...answer, dry_run: isDryRun }, { columns: columnsOf(['purged', 'retained', 'dry_run']), sentence })
      }
      if (isDryRun) return print(await client.trash.checkEmptying({ owner }), 'would destroy')
      if (!flags.yes) {
        const { purged } = await client.trash.checkEmptying({ owner })
        await confirm(cli.options, `Destroy ${pluralize(purged, 'document')} permanently?`)
      }
      print(await client.trash.empty({ owner }), '✓ Destroyed')
    })
