import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { requireUser } from '../../src/cli/runtime/require-user.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

export const notificationsRead = (cli: Cli): Command =>
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
    .action(async (given: string[], { all }: { all?: boolean }) => {
      if (all && given.length > 0) throw usage('--all and ids exclude each other')
      if (!all && given.length === 0) throw usage('no notification given', 'pass ids, or --all')
      requireUser(cli, 'notifications')
      const ids = await readIds(given)
      const { notifications } = await cli.client()
      if (all) {
        const { updated } = await notifications.readAll()
        return cli.print(
          { updated },
          { columns: [{ name: 'updated' }], id: 'updated', sentence: `✓ ${updated} notifications marked as read` },
        )
      }
      await runBatch(cli, {
        command: 'notifications read',
        phase: 'marking',
        items: ids,
        keyOf: (id) => id,
        async run(key) {
          const { id } = await notifications.read(parseId(key, 'notification'))
          return { action: 'updated', key, id }
        },
      })
    })
