import { type Command, Option } from 'commander'
import { addPasswordFlags, type PasswordFlags, printGeneratedPassword, readNewPassword } from '../../src/cli/arguments/new-password.ts'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { ClientError } from '../../src/client/client.ts'
import { allUserColumns } from './get.ts'

interface Flags extends PasswordFlags {
  username: string
  email: string
  role: 'user' | 'admin'
  displayName?: string
  ifAbsent?: boolean
}

export const usersAdd = (cli: Cli): Command =>
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
    .action(async (flags: Flags) => {
      const { username, email, role, displayName: display_name } = flags
      const password = await readNewPassword(cli, flags)
      const client = await cli.client()
      const created = await client.users.create({ username, email, role, display_name, password }).catch((error: ClientError) => {
        if (flags.ifAbsent && error.code === 'DUPLICATE_RESOURCE' && error.details.field === 'username') return null
        throw error
      })
      const user = created ?? (await findUser(client, username))
      const sentence = created ? `✓ Created user "${user.username}" (id ${user.id})` : `✓ User "${user.username}" exists (id ${user.id})`
      const shape = { columns: allUserColumns, sentence }
      // An existing user keeps the password, so none is printed.
      if (flags.generatePassword && created) printGeneratedPassword(cli, created, password, shape)
      else if (flags.generatePassword && !cli.options.isJson) cli.note(sentence)
      else cli.print(user, shape)
    })
