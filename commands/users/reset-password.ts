import type { Command } from 'commander'
import { newPassword, type PasswordFlags, printMadeUp, withPassword } from '../../src/cli/arguments/choose-password.ts'
import { userNamed } from '../../src/cli/arguments/users.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { allUserColumns } from './get.ts'

export const usersResetPassword = (cli: Cli): Command =>
  withPassword(
    manual('reset-password <user>', {
      summary: 'Give a user a new password; all their sessions end.',
      examples: [
        ['users reset-password ana', 'asks for it'],
        ['users reset-password ana --generate-password', 'prints the password, and nothing else'],
        ['pass show dms/ana | dms users reset-password ana --password-stdin', ''],
      ],
      exits: '0 done · 2 the password is not good enough, or nobody could be asked · 5 not an admin · 6 no such user',
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
