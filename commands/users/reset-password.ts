import type { Command } from 'commander'
import { newPassword, type PasswordFlags, printMadeUp, withPassword } from '../../src/cli/arguments/choose-password.ts'
import { userNamed } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersResetPassword = (cli: Cli): Command =>
  withPassword(
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
    const password = await newPassword(cli, flags)
    const client = await cli.client()
    const { id } = await userNamed(client, given)
    const user = await client.users.update(id, { password: password ?? '' })
    const sentence = `✓ User "${user.username}" has a new password; all their sessions have ended`
    const shape = { columns: allUserColumns, sentence }
    if (flags.generatePassword) printMadeUp(cli, user, password, shape)
    else cli.print(user, shape)
  })
