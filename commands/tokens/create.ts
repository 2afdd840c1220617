import type { Command } from 'commander'
import { type Scope, scopes } from '../../src/actor.ts'
import { parseDurationFlag } from '../../src/cli/arguments/flag-values.ts'
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
    summary: 'Create an API token and print it once',
    examples: [
      ['tokens create scanner --scope upload --expires 365d > /etc/scanner/token', 'may only add documents'],
      ['tokens create report --scope read --user svc-report', 'for a service account'],
      ['users add --username svc-report --email svc-report@example.org --no-password', 'creates a service account'],
    ],
    exits: '0 created · 2 unknown scope, or --user missing on the server · 5 not allowed · 6 no such user · 7 name taken',
  })
    .requiredOption('--scope <list>', `permissions, separated by commas: ${scopes.join(', ')}`)
    .option('--expires <duration>', 'lifetime, e.g. 12h or 90d (default: until revoked)')
    .option('--user <user>', 'owner: user name, e-mail address or id (for admins; default: you)')
    .action(async (name: string, { scope, expires, user }: Flags) => {
      const scopeList = parseScopes(scope)
      const lifetime = expires === undefined ? undefined : parseDurationFlag('--expires', expires)
      const client = await cli.client()
      const { token, ...created } = await client.tokens.create({
        name,
        scopes: scopeList,
        ...(lifetime === undefined ? {} : { expires_at: new Date(Date.now() + lifetime).toISOString() }),
        ...(user === undefined ? {} : { user }),
      })
      if (cli.options.isJson) return cli.print({ ...created, token }, { columns: [...tokenColumns, { name: 'token', show: 'wide' }] })
      cli.note(`✓ Created token "${created.name}" for ${created.username} (id ${created.id}); it is not shown again`)
      cli.write(`${token}\n`)
    })

function parseScopes(given: string): Scope[] {
  const names = given.split(',').map((scope) => scope.trim())
  const unknown = names.find((scope) => !scopes.some((known) => known === scope))
  if (unknown !== undefined) throw usage(`--scope: unknown scope ${unknown}; scopes: ${scopes.join(', ')}`)
  return names as Scope[]
}
