import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { manual } from '../src/cli/manual.ts'
import type { Column } from '../src/cli/output.ts'
import type { UserView } from '../src/users/view.ts'

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

interface Flags {
  role?: string
  disabled?: boolean
  search?: string
  limit: string
  all?: boolean
}

export const usersList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List users, newest first.',
    examples: [
      ['users list', ''],
      ['users list --role admin -o id', 'ids, for a script'],
      ['users list --disabled --all -o csv', ''],
    ],
    exits: '0 listed, also when there are none · 4 not signed in · 5 not an admin · 69 unreachable',
  })
    .option('--role <role>', 'admin or user only')
    .option('--disabled', 'those who may not sign in only')
    .option('--search <text>', 'a piece of the name, e-mail address or display name')
    .option('--limit <n>', 'at most so many', '50')
    .option('--all', 'all of them')
    .action(async ({ role, disabled, search, limit, all }: Flags) => {
      const most = all ? Number.POSITIVE_INFINITY : Number(limit)
      if (!(most >= 1)) throw usage(`--limit ${limit}: a number from 1 on`)
      const client = await cli.client()
      const users: UserView[] = []
      for await (const user of client.each<UserView>('/api/users', { role, disabled, q: search })) {
        if (users.length >= most) {
          if (cli.options.verbose > 0) cli.note(`showing ${most}; there are more (--all)`)
          break
        }
        users.push(user)
      }
      cli.print(users, { columns: userColumns })
    })
