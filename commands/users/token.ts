import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'

export const usersToken = (cli: Cli): Command =>
  manual('token <user>', {
    summary: 'Print a session token for a user',
    examples: [
      ['users token svc-import > token', ''],
      ['ssh dms1 dms users token svc-import | dms login https://dms.example.org --with-token', 'for servers with single sign-on only'],
    ],
    notes: ['Runs on the server only and needs no password. The token expires like that of a sign-in (auth.session_lifetime_hours).'],
    exits: '0 printed · 6 no such user · 7 user is disabled',
  }).action(async (name: string) => {
    const app = await cli.app('users token')
    const [users, { issueToken }] = await Promise.all([import('../../src/users/users.ts'), import('../../src/auth/auth.ts')])
    const user = await users.findByIdentifier(app.db, name)
    if (!user) throw new Failure('NOT_FOUND', `no user "${name}"`)
    const { token, expires_at } = await issueToken(app, user)
    if (cli.options.isJson) cli.print({ token, expires_at, username: user.username }, { columns: [] })
    else cli.write(`${token}\n`)
  })
