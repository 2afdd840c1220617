import { readIds } from '../../src/cli/arguments/ids.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import { requireUser } from '../../src/cli/remote/target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Notification } from '../../src/client/notifications.ts'

export const notifications = (cli: Cli) => group('notifications', 'List notifications and mark them as read', [list(cli), read(cli)])

const columns: Column<Notification>[] = [
  ...columnsOf(['id', 'created_at']),
  { name: 'read', title: 'STATE', value: ({ read }) => (read ? 'read' : 'new') },
  ...columnsOf(['type', 'title', 'message']),
  { name: 'data', show: 'wide' },
]

const list = (cli: Cli) =>
  addLimitFlags(
    manual('list', {
      summary: 'List your notifications, newest first',
      examples: [
        ['notifications list --unread', ''],
        ['notifications list --unread --all -o json | jq -r \'.[] | select(.type == "ocr_failed") | .data.document_id\'', ''],
        ['notifications list --as ana', 'on the server'],
      ],
      exits: '0 listed · 2 no user selected (--as) · 4 not signed in · 69 server unreachable',
    })
      .alias('ls')
      .option('--unread', 'only unread notifications'),
  ).action(async ({ unread, ...flags }: ListFlags & { unread?: boolean }) => {
    const limit = parseLimit(flags)
    requireUser(cli, 'notifications')
    const client = await cli.client()
    const rows = client.notifications.list({ unread_only: unread === true, per_page: Math.min(limit, 100) })
    await printList(cli, rows, limit, { columns })
  })

const read = (cli: Cli) =>
  manual('read [id...]', {
    summary: 'Mark notifications as read',
    examples: [
      ['notifications read 0192f0c1-…', ''],
      ['notifications read --all', ''],
    ],
    exits:
      '0 marked · 2 no user or notification selected · 3 some do not exist · 4 not signed in · 6 no such notification · 69 server unreachable',
  })
    .option('--all', 'all your notifications')
    .action(async (ids: string[], { all }: { all?: boolean }) => {
      if (all && ids.length > 0) throw usage('--all and ids exclude each other')
      if (!all && ids.length === 0) throw usage('no notification given', 'pass ids, or --all')
      requireUser(cli, 'notifications')
      if (all) return markAll(cli)
      await runIdBatch(cli, await readIds(ids), {
        command: 'notifications read',
        phase: 'marking',
        action: 'updated',
        noun: 'notification',
        run: async (client, id) => void (await client.notifications.read(id)),
      })
    })

async function markAll(cli: Cli): Promise<void> {
  const client = await cli.client()
  const { updated } = await client.notifications.readAll()
  cli.print({ updated }, { columns: [{ name: 'updated' }], id: 'updated', sentence: `✓ ${updated} notifications marked as read` })
}
