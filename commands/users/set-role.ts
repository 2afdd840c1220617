import { Argument, type Command } from 'commander'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersSetRole = (cli: Cli): Command =>
  manual('set-role <user>', {
    summary: 'Change the role of a user',
    examples: [
      ['users set-role ana admin', ''],
      ['users set-role ana@example.org user', ''],
    ],
    exits: '0 changed · 2 no such role · 5 not an admin · 6 no such user · 7 last active admin',
  })
    .addArgument(new Argument('<role>').choices(['admin', 'user']))
    .action(async (given: string, role: 'admin' | 'user') => {
      const client = await cli.client()
      const { id } = await findUser(client, given)
      const user = await client.users.update(id, { role })
      cli.print(user, {
        columns: allUserColumns,
        sentence: `✓ User "${user.username}" now has the role ${role}`,
      })
    })
