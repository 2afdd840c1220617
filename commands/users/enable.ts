import type { Command } from 'commander'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersEnable = (cli: Cli): Command =>
  manual('enable <user>', {
    summary: 'Enable a disabled user',
    examples: [
      ['users enable ana', ''],
      ['users enable ana@example.org -o json', 'prints the user'],
    ],
    exits: '0 enabled, or was enabled · 5 not an admin · 6 no such user',
  }).action(async (given: string) => {
    const client = await cli.client()
    const { id } = await findUser(client, given)
    const user = await client.users.update(id, { disabled: false })
    cli.print(user, { columns: allUserColumns, sentence: `✓ Enabled user "${user.username}"` })
  })
