import type { Command } from 'commander'
import { promptLine } from '../../src/cli/arguments/prompt.ts'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { UserView } from '../../src/users/view.ts'
import { allUserColumns } from './get.ts'

interface Flags {
  confirm?: string
  documents?: string
}

export const usersDelete = (cli: Cli): Command =>
  manual('delete <user>', {
    summary: 'Delete a user',
    examples: [
      ['users delete ana --documents transfer:bob', 'asks for the user name to confirm'],
      ['users delete ana --documents delete --confirm ana', 'for a script'],
      ['users disable ana', 'reversible alternative'],
    ],
    exits:
      '0 deleted · 2 no terminal to confirm on, and no --confirm · 5 not an admin · 6 no such user · 7 owns documents, or is the last active admin',
  })
    .alias('rm')
    .option('--documents <what>', 'delete, or transfer:USER; required if the user owns documents')
    .option('--confirm <username>', 'user name, to confirm without a question')
    .action(async (given: string, { confirm, documents }: Flags) => {
      const removal = parseRemoval(documents)
      const client = await cli.client()
      const user = await findUser(client, given)
      if (!cli.options.printCurl) await confirmName(cli, user, confirm)
      await client.users.delete(user.id, removal)
      cli.print(user, { columns: allUserColumns, sentence: `✓ Deleted user "${user.username}"` })
    })

function parseRemoval(documents: string | undefined): { documents?: 'delete' | 'transfer'; to?: string } {
  if (documents === undefined) return {}
  if (documents === 'delete') return { documents }
  const to = /^transfer:(.+)$/.exec(documents)?.[1]
  if (to === undefined) throw usage(`--documents ${documents} is neither delete nor transfer:USER`)
  return { documents: 'transfer', to }
}

/** Throws Failure USAGE if another name is typed or the question cannot be asked. */
async function confirmName(cli: Cli, { username }: UserView, given: string | undefined): Promise<void> {
  const name = given ?? (await promptLine(cli.options, `Type "${username}" to delete this user:`, `--confirm ${username}`))
  if (name.trim() !== username) throw usage(`"${name}" is not "${username}": nothing was changed`)
}
