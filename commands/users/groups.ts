import type { Command } from 'commander'
import { findUsername } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const usersGroups = (cli: Cli): Command =>
  manual('groups <user>', {
    summary: 'List the single sign-on groups of a user',
    examples: [
      ['users groups ana', 'one per line'],
      ['users groups ana -o json | jq -r .synced_at', 'time of the last update'],
    ],
    exits: '0 listed · 5 not an admin · 6 no such user · 69 server unreachable',
  }).action(async (given: string) => {
    const client = await cli.client()
    const found = await client.users.groups(await findUsername(client, given))
    const { isJson } = cli.options
    if (isJson) return cli.print(found, { columns: [] })
    const rows = found.groups.map((group) => ({ group }))
    cli.print(rows, { columns: [{ name: 'group' }], id: 'group' })
  })
