import type { Command } from 'commander'
import { type Scope, scopes } from '../../src/actor.ts'
import { durationOf } from '../../src/cli/arguments/duration.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { tokenColumns } from './list.ts'

interface Flags {
  scope: string
  expires?: string
  user?: string
}

export const tokensCreate = (cli: Cli): Command =>
  manual('create <name>', {
    summary: 'Make an API token and print it, alone, on standard output: it cannot be seen again.',
    examples: [
      ['tokens create scanner --scope upload --expires 365d > /etc/scanner/token', 'may add documents and nothing else'],
      ['tokens create report --scope read --user svc-report', 'for an account that only a program uses'],
      ['users add --username svc-report --email svc-report@example.org --no-password', 'makes such an account'],
    ],
    exits: '0 made · 2 unknown scope, or no --user on the server’s own shell · 5 not yours to make · 6 no such user · 7 the name is taken',
  })
    .requiredOption('--scope <list>', `what it may do, with commas: ${scopes.join(', ')}`)
    .option('--expires <duration>', 'for how long it works, as 12h or 90d; default: until it is revoked')
    .option('--user <user>', 'whose it will be (admins): name, e-mail address or id; default: yours')
    .action(async (name: string, { scope, expires, user }: Flags) => {
      const wanted = scopesOf(scope)
      const lifetime = expires === undefined ? undefined : durationOf('--expires', expires)
      const client = await cli.client()
      const { token, ...made } = await client.tokens.create({
        name,
        scopes: wanted,
        ...(lifetime === undefined ? {} : { expires_at: new Date(Date.now() + lifetime).toISOString() }),
        ...(user === undefined ? {} : { user }),
      })
      if (cli.options.isJson) return cli.print({ ...made, token }, { columns: [...tokenColumns, { name: 'token', show: 'wide' }] })
      cli.note(`✓ Token "${made.name}" of ${made.username} made (id ${made.id}); it is not shown again`)
      cli.write(`${token}\n`)
    })

function scopesOf(given: string): Scope[] {
  const wanted = given.split(',').map((scope) => scope.trim())
  const unknown = wanted.find((scope) => !scopes.some((known) => known === scope))
  if (unknown !== undefined) throw usage(`--scope ${unknown}: one or more of ${scopes.join(', ')}`)
  return wanted as Scope[]
}
