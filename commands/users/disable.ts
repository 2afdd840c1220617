import type { Command } from 'commander'
import { userNamed } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersDisable = (cli: Cli): Command =>
  manual('disable <user>', {
    summary: 'Lock a user out: no sign-in, and all sessions end; documents and links stay.',
    examples: [
      ['users disable ana', ''],
      ['users disable ana@example.org -o json', 'and show the user'],
    ],
    exits: '0 done, also when it was so before · 5 not an admin · 6 no such user · 7 this is the last active admin',
  }).action(async (given: string) => {
    const client = await cli.client()
    const { id } = await userNamed(client, given)
    const user = await client.users.update(id, { disabled: true })
    cli.print(user, { columns: allUserColumns, sentence: `✓ User "${user.username}" may not sign in any more` })
  })
