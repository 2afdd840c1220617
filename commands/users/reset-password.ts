import type { Command } from 'commander'
import { addPasswordFlags, type PasswordFlags, printGeneratedPassword, readNewPassword } from '../../src/cli/arguments/new-password.ts'
import { findUser } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersResetPassword = (cli: Cli): Command =>
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
  ).action(async (given: string, flags: PasswordFlags) => {
    const password = await readNewPassword(cli, flags)
    const client = await cli.client()
    const { id } = await findUser(client, given)
    const user = await client.users.update(id, { password: password ?? '' })
    const sentence = `✓ Changed the password of user "${user.username}" and ended all sessions`
    const shape = { columns: allUserColumns, sentence }
    if (flags.generatePassword) printGeneratedPassword(cli, user, password, shape)
    else cli.print(user, shape)
  })
