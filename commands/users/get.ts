import type { Command } from 'commander'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { UserView } from '../../src/users/view.ts'

/** Every field of a user, for the output of a single one. */
export const allUserColumns: Column<UserView>[] = [
  { name: 'id' },
  { name: 'username' },
  { name: 'email' },
  { name: 'display_name', title: 'NAME' },
  { name: 'role' },
  { name: 'disabled' },
  { name: 'auth_method', title: 'AUTH' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'last_login_at', title: 'LAST_LOGIN' },
]

export const usersGet = (cli: Cli): Command =>
  manual('get <user>', {
    summary: 'Show a user',
    examples: [
      ['users get ana', 'one field per line'],
      ['users get ana@example.org -o id', ''],
      ['users get ana -o json | jq -r .last_login_at', ''],
    ],
    exits: '0 shown · 4 not signed in · 5 not an admin · 6 no such user · 69 server unreachable',
    notes: ['USER is a user name, an e-mail address or an id.'],
  }).action(async (given: string) => {
    const client = await cli.client()
    const user = await findUser(client, given)
    cli.print(cli.options.printCurl ? await client.users.get(user.id) : user, { columns: allUserColumns })
  })
