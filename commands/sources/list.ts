import { type Command, Option } from 'commander'
import { sourceColumns } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sourcesList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List sources',
    examples: [
      ['sources list', ''],
      ['sources list --status error -o id', 'sources whose last sync failed'],
      ['sources list -o wide', 'with URL, interval and last error'],
    ],
    exits: '0 listed · 4 not signed in · 69 server unreachable',
  })
    .alias('ls')
    .addOption(new Option('--status <status>', 'only this status').choices(['active', 'syncing', 'error', 'disabled']))
    .action(async ({ status }: { status?: string }) => {
      const client = await cli.client()
      const sources = await client.sources.list()
      cli.print(status === undefined ? sources : sources.filter((source) => source.status === status), { columns: sourceColumns })
    })
