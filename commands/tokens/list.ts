import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { ApiToken } from '../../src/client/tokens.ts'

export const tokenColumns: Column<ApiToken>[] = [
  { name: 'id' },
  { name: 'name' },
  { name: 'username', title: 'USER' },
  { name: 'scopes' },
  { name: 'expires_at', title: 'EXPIRES' },
  { name: 'last_used_at', title: 'LAST_USED' },
  { name: 'created_at', title: 'CREATED', show: 'wide' },
]

export const tokensList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List API tokens, newest first',
    examples: [
      ['tokens list', ''],
      ['tokens list --user svc-import -o id', 'of one user, for a script'],
    ],
    exits: '0 listed · 4 not signed in · 6 no such user · 69 server unreachable',
    notes: ['Users see their own tokens, admins see all. The secret part is never shown.'],
  })
    .alias('ls')
    .option('--user <user>', 'only tokens of this user: name, e-mail address or id')
    .action(async ({ user }: { user?: string }) => {
      const client = await cli.client()
      cli.print(await client.tokens.list(user === undefined ? {} : { user }), { columns: tokenColumns })
    })
