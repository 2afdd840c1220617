import type { Command } from 'commander'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersDisable = (cli: Cli): Command =>
  manual('disable <user>', {
    summary: 'Disable a user and end all sessions',
    examples: [
      ['users disable ana', ''],
      ['users disable ana@example.org -o json', 'prints the user'],
    ],
    exits: '0 disabled, or was disabled · 5 not an admin · 6 no such user · 7 last active admin',
    notes: ['Documents and shared links stay.'],
  }).action(async (given: string) => {
    const client = await cli.client()
    const { id } = await findUser(client, given)
    const user = await client.users.update(id, { disabled: true })
    cli.print(user, { columns: allUserColumns, sentence: `✓ Disabled user "${user.username}"` })
  })
