import { type Scope, scopes } from '../../src/actor.ts'
import { readIds } from '../../src/cli/arguments/ids.ts'
import { futureTimeFlag, parseFutureTime } from '../../src/cli/arguments/time-span.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, type PlainColumn, rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { Client } from '../../src/client/client.ts'

const columns: PlainColumn[] = [
  ...columnsOf(['id', 'name']),
  { name: 'username', title: 'USER' },
  ...columnsOf(['scopes', 'expires_at', 'last_used_at']),
  { name: 'created_at', show: 'wide' },
]

export const tokens = (cli: Cli) => group('tokens', 'Manage API tokens', [list(cli), create(cli), revoke(cli)])

const list = (cli: Cli) =>
  manual('list', {
    summary: 'List API tokens, newest first',
    examples: [
      ['tokens list', ''],
      ['tokens list --user svc-import -o id', 'of one user, for a script'],
    ],
    exits: '0 listed · 4 not signed in · 6 no such user · 69 server unreachable',
    notes: ['Users see their own tokens, admins see all. The secret part is never shown.'],
  })
    .alias('ls')
    .option('--user <user>', 'only tokens of this user: name, e-mail address or id')
    .action(async ({ user }: { user?: string }) => {
      const client = await cli.client()
      cli.print(await client.tokens.list({ user }), { columns })
    })

const create = (cli: Cli) =>
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
    .addOption(futureTimeFlag('--expires', 'time until expiry (90d), or a date (2026-12-31; default: until revoked)'))
    .option('--user <user>', 'owner: user name, e-mail address or id (for admins; default: you)')
    .action(async (name: string, { scope, expires, user }: { scope: string; expires?: string; user?: string }) => {
      rejectOutputFlags(cli.options, 'the token is printed alone')
      const scopeList = parseScopes(scope)
      const client = await cli.client()
      const expires_at = expires === undefined ? undefined : await parseExpiry(cli, client, expires)
      const { token, ...created } = await client.tokens.create({ name, scopes: scopeList, expires_at, user })
      if (cli.options.isJson) return cli.print({ ...created, token }, { columns: [...columns, { name: 'token', show: 'wide' }] })
      cli.note(`✓ Created token "${created.name}" for ${created.username} (id ${created.id}); it is not shown again`)
      cli.write(`${token}\n`)
    })

/** Returns the time of --expires. A date means the end of that day in UTC, as in shared links. */
async function parseExpiry(cli: Cli, client: Client, text: string): Promise<string> {
  const when = await parseFutureTime(cli, client, '--expires', text)
  return new Date(when.length === 10 ? `${when}T23:59:59.999Z` : when).toISOString()
}

function parseScopes(list: string): Scope[] {
  const names = list.split(',').map((scope) => scope.trim())
  const unknown = names.find((name) => !scopes.some((scope) => scope === name))
  if (unknown !== undefined) throw usage(`--scope: unknown scope ${unknown}; scopes: ${scopes.join(', ')}`)
  return names as Scope[]
}

const revoke = (cli: Cli) =>
  manual('revoke <id...>', {
    summary: 'Revoke API tokens',
    examples: [
      ['tokens revoke 0192f0c1-…', ''],
      ['dms tokens list --user svc-import -o id | dms tokens revoke -', 'all tokens of one user'],
    ],
    exits: '0 revoked · 3 some could not be revoked · 6 no such token',
  })
    .alias('rm')
    .action(async (ids: string[]) =>
      runIdBatch(cli, await readIds(ids), {
        command: 'tokens revoke',
        phase: 'revoking',
        action: 'revoked',
        noun: 'API token',
        run: (client, id) => client.tokens.revoke(id),
      }),
    )
