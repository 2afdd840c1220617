import type { Command } from 'commander'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { requireUser } from '../../src/cli/runtime/require-user.ts'
import type { Notification } from '../../src/client/notifications.ts'

export const notificationColumns: Column<Notification>[] = [
  { name: 'id' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'read', title: 'STATE', value: ({ read }) => (read ? 'read' : 'new') },
  { name: 'type' },
  { name: 'title' },
  { name: 'message' },
  { name: 'data', show: 'wide' },
]

export const notificationsList = (cli: Cli): Command =>
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
  ).action(async (flags: ListFlags & { unread?: boolean }) => {
    const limit = parseLimit(flags)
    requireUser(cli, 'notifications')
    const client = await cli.client()
    const list = client.notifications.list({ unread_only: flags.unread === true, per_page: Math.min(limit, 100) })
    await printList(cli, list, limit, { columns: notificationColumns })
  })
