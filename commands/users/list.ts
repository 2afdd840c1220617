import { findUser, findUsername } from '../../src/cli/arguments/users.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf, type PlainColumn } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { UserView } from '../../src/users/view.ts'

const listColumns: Column<UserView>[] = [
  { name: 'id', show: 'wide' },
  ...columnsOf(['username', 'email', 'role']),
  { name: 'disabled', title: 'STATE', value: ({ disabled }) => (disabled ? 'disabled' : 'active') },
  { name: 'created_at' },
  { name: 'display_name', title: 'NAME', show: 'wide' },
  { name: 'auth_method', title: 'AUTH', show: 'wide' },
  { name: 'last_login_at', show: 'wide' },
]

/** Every field of a user, for commands that print a single user. */
export const userColumns: PlainColumn[] = [
  ...columnsOf(['id', 'username', 'email']),
  { name: 'display_name', title: 'NAME' },
  ...columnsOf(['role', 'disabled']),
  { name: 'auth_method', title: 'AUTH' },
  ...columnsOf(['created_at', 'last_login_at']),
]

export const list = (cli: Cli) =>
  addLimitFlags(
    manual('list', {
      summary: 'List users, newest first',
      examples: [
        ['users list', ''],
        ['users list --role admin -o id', 'ids, for a script'],
        ['users list --disabled --all -o csv', ''],
      ],
      exits: '0 listed · 4 not signed in · 5 not an admin · 69 server unreachable',
    })
      .alias('ls')
      .option('--role <role>', 'only this role: admin or user')
      .option('--disabled', 'only disabled users')
      .option('--search <text>', 'text in user name, e-mail address or display name'),
  ).action(async (flags: ListFlags & { role?: string; disabled?: boolean; search?: string }) => {
    const limit = parseLimit(flags)
    const { role, disabled, search } = flags
    const client = await cli.client()
    const users = client.users.list({ role, disabled, q: search, per_page: Math.min(limit, 100) })
    await printList(cli, users, limit, { columns: listColumns })
  })

export const get = (cli: Cli) =>
  manual('get <user>', {
    summary: 'Show a user',
    examples: [
      ['users get ana', 'one field per line'],
      ['users get ana@example.org -o id', ''],
      ['users get ana -o json | jq -r .last_login_at', ''],
    ],
    exits: '0 shown · 4 not signed in · 5 not an admin · 6 no such user · 69 server unreachable',
    notes: ['USER is a user name, an e-mail address or an id.'],
  }).action(async (identifier: string) => {
    const client = await cli.client()
    const user = await findUser(client, identifier)
    cli.print(cli.options.printCurl ? await client.users.get(user.id) : user, { columns: userColumns })
  })

export const groups = (cli: Cli) =>
  manual('groups <user>', {
    summary: 'List the single sign-on groups of a user',
    examples: [
      ['users groups ana', 'one per line'],
      ['users groups ana -o json | jq -r .synced_at', 'time of the last update'],
    ],
    exits: '0 listed · 5 not an admin · 6 no such user · 69 server unreachable',
  }).action(async (identifier: string) => {
    const client = await cli.client()
    const answer = await client.users.groups(await findUsername(client, identifier))
    if (cli.options.isJson) return cli.print(answer, { columns: [] })
    const rows = answer.groups.map((group) => ({ group }))
    cli.print(rows, { columns: [{ name: 'group' }], id: 'group' })
  })
