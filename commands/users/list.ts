import type { Command } from 'commander'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { UserView } from '../../src/users/view.ts'

export const userColumns: Column<UserView>[] = [
  { name: 'id', show: 'wide' },
  { name: 'username' },
  { name: 'email' },
  { name: 'role' },
  { name: 'disabled', title: 'STATE', value: ({ disabled }) => (disabled ? 'disabled' : 'active') },
  { name: 'created_at', title: 'CREATED' },
  { name: 'display_name', title: 'NAME', show: 'wide' },
  { name: 'auth_method', title: 'AUTH', show: 'wide' },
  { name: 'last_login_at', title: 'LAST_LOGIN', show: 'wide' },
]

interface Flags extends ListFlags {
  role?: string
  disabled?: boolean
  search?: string
}

export const usersList = (cli: Cli): Command =>
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
  ).action(async (flags: Flags) => {
    const limit = parseLimit(flags)
    const { role, disabled, search } = flags
    const client = await cli.client()
    const users = client.users.list({ role, disabled, q: search, per_page: Math.min(limit, 100) })
    await printList(cli, users, limit, { columns: userColumns })
  })
