import { Argument, Option } from 'commander'
import { addPasswordFlags, type PasswordFlags, printGeneratedPassword, readNewPassword } from '../../src/cli/arguments/new-password.ts'
import { promptLine } from '../../src/cli/arguments/prompt.ts'
import { findUser } from '../../src/cli/arguments/users.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'
import type { Client, ClientError } from '../../src/client/client.ts'
import type { UserView } from '../../src/users/view.ts'
import { exportUsers } from './export.ts'
import { importUsers } from './import.ts'
import { userColumns as columns, get, groups, list } from './list.ts'

export const users = (cli: Cli) =>
  group('users', 'Manage users', [
    list(cli),
    get(cli),
    add(cli),
    importUsers(cli),
    exportUsers(cli),
    groups(cli),
    setRole(cli),
    resetPassword(cli),
    disable(cli),
    enable(cli),
    remove(cli),
    token(cli),
  ])

interface NewUserFlags extends PasswordFlags {
  username: string
  email: string
  role: 'user' | 'admin'
  displayName?: string
  ifAbsent?: boolean
}

const add = (cli: Cli) =>
  addPasswordFlags(
    manual('add', {
      summary: 'Create a user',
      examples: [
        ['users add --username ana --email ana@example.org', 'asks for the password'],
        ['users add --username ana --email ana@example.org --generate-password', 'prints only the password'],
        ['users add --username sso --email sso@example.org --no-password', 'single sign-on only'],
        ['users add --username svc --email svc@example.org --password-file svc.pw --if-absent', 'for a setup script'],
      ],
      exits: '0 created (or exists, with --if-absent) · 2 invalid value · 5 not an admin · 7 user name or e-mail address taken',
    })
      .requiredOption('--username <name>', 'user name, without spaces and @')
      .requiredOption('--email <address>', 'e-mail address')
      .addOption(new Option('--role <role>', 'role').choices(['user', 'admin']).default('user'))
      .option('--display-name <name>', 'name shown to others'),
  )
    .option('--no-password', 'no password: single sign-on only')
    .option('--if-absent', 'succeed if a user of this name exists')
    .action(async (flags: NewUserFlags) => {
      const { username, email, role, displayName: display_name } = flags
      const password = await readNewPassword(cli, flags)
      const client = await cli.client()
      const created = await client.users.create({ username, email, role, display_name, password }).catch((error: ClientError) => {
        if (flags.ifAbsent && error.code === 'DUPLICATE_RESOURCE' && error.details.field === 'username') return null
        throw error
      })
      const user = created ?? (await findUser(client, username))
      const sentence = created ? `✓ Created user "${user.username}" (id ${user.id})` : `✓ User "${user.username}" exists (id ${user.id})`
      // An existing user keeps the password, so none is printed.
      if (flags.generatePassword && created) printGeneratedPassword(cli, created, password, { columns, sentence })
      else if (flags.generatePassword && !cli.options.isJson) cli.note(sentence)
      else cli.print(user, { columns, sentence })
    })

const setRole = (cli: Cli) =>
  manual('set-role <user>', {
    summary: 'Change the role of a user',
    examples: [
      ['users set-role ana admin', ''],
      ['users set-role ana@example.org user', ''],
    ],
    exits: '0 changed · 2 no such role · 5 not an admin · 6 no such user · 7 last active admin',
  })
    .addArgument(new Argument('<role>').choices(['admin', 'user']))
    .action((identifier: string, role: 'admin' | 'user') =>
      update(cli, identifier, { role }, (name) => `✓ User "${name}" now has the role ${role}`),
    )

const resetPassword = (cli: Cli) =>
  addPasswordFlags(
    manual('reset-password <user>', {
      summary: 'Set a new password for a user and end all sessions',
      examples: [
        ['users reset-password ana', 'asks for the password'],
        ['users reset-password ana --generate-password', 'prints only the password'],
        ['pass show dms/ana | dms users reset-password ana --password-stdin', ''],
      ],
      exits: '0 changed · 2 password too weak, or no terminal to ask on · 5 not an admin · 6 no such user',
    }),
  ).action(async (identifier: string, flags: PasswordFlags) => {
    const password = await readNewPassword(cli, flags)
    const client = await cli.client()
    const { id } = await findUser(client, identifier)
    const user = await client.users.update(id, { password: password ?? '' })
    const shape = { columns, sentence: `✓ Changed the password of user "${user.username}" and ended all sessions` }
    if (flags.generatePassword) printGeneratedPassword(cli, user, password, shape)
    else cli.print(user, shape)
  })

const disable = (cli: Cli) =>
  manual('disable <user>', {
    summary: 'Disable a user and end all sessions',
    examples: [
      ['users disable ana', ''],
      ['users disable ana@example.org -o json', 'prints the user'],
    ],
    exits: '0 disabled, or was disabled · 5 not an admin · 6 no such user · 7 last active admin',
    notes: ['Documents and shared links stay.'],
  }).action((identifier: string) => update(cli, identifier, { disabled: true }, (name) => `✓ Disabled user "${name}"`))

const enable = (cli: Cli) =>
  manual('enable <user>', {
    summary: 'Enable a disabled user',
    examples: [
      ['users enable ana', ''],
      ['users enable ana@example.org -o json', 'prints the user'],
    ],
    exits: '0 enabled, or was enabled · 5 not an admin · 6 no such user',
  }).action((identifier: string) => update(cli, identifier, { disabled: false }, (name) => `✓ Enabled user "${name}"`))

type Changes = Parameters<Client['users']['update']>[1]

async function update(cli: Cli, identifier: string, changes: Changes, sentenceFor: (name: string) => string): Promise<void> {
  const client = await cli.client()
  const { id } = await findUser(client, identifier)
  const user = await client.users.update(id, changes)
  cli.print(user, { columns, sentence: sentenceFor(user.username) })
}

const remove = (cli: Cli) =>
  manual('delete <user>', {
    summary: 'Delete a user',
    examples: [
      ['users delete ana --documents transfer:bob', 'asks for the user name to confirm'],
      ['users delete ana --documents delete --confirm ana', 'for a script'],
      ['users disable ana', 'reversible alternative'],
    ],
    exits:
      '0 deleted · 2 no terminal to confirm on, and no --confirm · 5 not an admin · 6 no such user, or recipient · 7 owns documents, or is the last active admin',
    notes: [
      'Comments on documents that stay are kept with the user name.',
      'More than 500 documents are destroyed in batches, after the user is disabled. If it is interrupted, repeat it.',
    ],
  })
    .alias('rm')
    .option('--documents <what>', 'delete, or transfer:USER; required if the user owns documents')
    .option('--confirm <username>', 'user name, to confirm without a question')
    .action(async (identifier: string, { confirm, documents }: { confirm?: string; documents?: string }) => {
      const removal = parseRemoval(documents)
      const client = await cli.client()
      const user = await findUser(client, identifier)
      if (removal.to !== undefined) removal.to = (await findUser(client, removal.to)).id
      if (!cli.options.printCurl) await confirmName(cli, user, confirm)
      await client.users.delete(user.id, removal)
      cli.print(user, { columns, sentence: `✓ Deleted user "${user.username}"` })
    })

function parseRemoval(documents: string | undefined): { documents?: 'delete' | 'transfer'; to?: string } {
  if (documents === undefined) return {}
  if (documents === 'delete') return { documents }
  const to = /^transfer:(.+)$/.exec(documents)?.[1]
  if (to === undefined) throw usage(`--documents ${documents} is neither delete nor transfer:USER`)
  return { documents: 'transfer', to }
}

/** Confirms by the user name. Throws Failure USAGE for another name, or without a terminal. */
async function confirmName(cli: Cli, { username }: UserView, confirmed: string | undefined): Promise<void> {
  const name = confirmed ?? (await promptLine(cli.options, `Type "${username}" to delete this user:`, `--confirm ${username}`))
  if (name.trim() !== username) throw usage(`"${name}" is not "${username}": nothing was changed`)
}

const token = (cli: Cli) =>
  manual('token <user>', {
    summary: 'Print a session token for a user',
    examples: [
      ['users token svc-import > token', ''],
      ['ssh dms1 dms users token svc-import | dms login https://dms.example.org --with-token', 'for servers with single sign-on only'],
    ],
    notes: ['Runs on the server only and needs no password. The token expires like that of a sign-in (auth.session_lifetime_hours).'],
    exits: '0 printed · 6 no such user · 7 user is disabled · 78 the running servers have another JWT secret',
  }).action(async (identifier: string) => {
    rejectOutputFlags(cli.options, 'the token is printed alone')
    const app = await cli.app('users token')
    const [{ findByIdentifier }, { issueToken }, { auditCommand }, { checkSecret }] = await Promise.all([
      import('../../src/users/users.ts'),
      import('../../src/auth/auth.ts'),
      import('../../src/cli/remote/local-client.ts'),
      import('../../src/server/server-heartbeat.ts'),
    ])
    // A token of another secret would be printed, and refused by every server.
    await checkSecret(app)
    const user = await findByIdentifier(app.db, identifier)
    if (!user) throw new Failure('NOT_FOUND', `no user "${identifier}"`)
    await auditCommand(app, cli, { action: 'dms users token', target: `id=${user.id}`, details: { username: user.username } })
    const { token, expires_at } = await issueToken(app, user)
    if (cli.options.isJson) cli.print({ token, expires_at, username: user.username }, { columns: [] })
    else cli.write(`${token}\n`)
  })
