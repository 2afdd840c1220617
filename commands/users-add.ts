import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { manual } from '../src/cli/manual.ts'
import { readSecret } from '../src/cli/secret.ts'
import type { Client, ClientError } from '../src/client/client.ts'
import type { UserView } from '../src/users/view.ts'
import { userColumns } from './users-list.ts'

interface Flags {
  username: string
  email: string
  role: string
  displayName?: string
  passwordStdin?: boolean
  passwordFile?: string
  generatePassword?: boolean
  ifAbsent?: boolean
}

export const usersAdd = (cli: Cli): Command =>
  manual('add', {
    summary: 'Make a user.',
    examples: [
      ['users add --username ana --email ana@example.org', 'asks for the password'],
      ['users add --username ana --email ana@example.org --generate-password', 'prints the password, and nothing else'],
      ['users add --username svc --email svc@example.org --password-file svc.pw --if-absent', 'for a setup script'],
    ],
    exits: '0 made (or there, with --if-absent) · 2 something is not allowed · 5 not an admin · 7 name or address is taken',
  })
    .requiredOption('--username <name>', 'without spaces and @')
    .requiredOption('--email <address>', '')
    .option('--role <role>', 'user or admin', 'user')
    .option('--display-name <name>', 'as others see it')
    .option('--password-stdin', 'read the password from standard input')
    .option('--password-file <file>', 'read the password from a file')
    .option('--generate-password', 'make one up and print it, once')
    .option('--if-absent', 'it is fine when there is a user of that name already')
    .action(async (flags: Flags) => {
      const { username, email, role, displayName: display_name } = flags
      const password = await passwordFor(cli, flags)
      const client = await cli.client()
      const made = await client
        .call<UserView>('POST', '/api/users', { username, email, role, display_name, password })
        .catch((error: ClientError) => {
          if (flags.ifAbsent && error.code === 'DUPLICATE_RESOURCE' && error.details.field === 'username') return null
          throw error
        })
      const user = made ?? (await present(client, username))
      const sentence = made
        ? `✓ User "${user.username}" made (id ${user.id})`
        : `✓ User "${user.username}" is there already (id ${user.id})`
      if (!flags.generatePassword) return cli.print(user, { columns: userColumns, sentence })
      cli.note(sentence)
      // Alone on standard output: `| pass insert -e dms/ana` must get nothing else. A user who was there keeps theirs.
      if (made) cli.write(`${password}\n`)
    })

async function passwordFor(cli: Cli, { passwordStdin: isStdin, passwordFile: file, generatePassword }: Flags): Promise<string> {
  if (!generatePassword) return readSecret(cli.options, 'password', { isStdin, file }, true)
  if (isStdin || file !== undefined) throw usage('--generate-password and a given password exclude each other')
  const { inventPassword } = await import('../src/auth/invent-password.ts')
  return inventPassword()
}

async function present(client: Client, username: string): Promise<UserView> {
  const { usernameKey } = await import('../src/users/fields.ts')
  for await (const user of client.each<UserView>('/api/users', { q: username.trim().normalize('NFKC') })) {
    if (usernameKey(user.username) === usernameKey(username)) return user
  }
  throw usage(`"${username}" was taken, and is gone now`, 'try again')
}
