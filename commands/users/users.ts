import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usersAdd } from './add.ts'
import { usersDelete } from './delete.ts'
import { usersDisable } from './disable.ts'
import { usersEnable } from './enable.ts'
import { usersExport } from './export.ts'
import { usersGet } from './get.ts'
import { usersGroups } from './groups.ts'
import { usersImport } from './import.ts'
import { usersList } from './list.ts'
import { usersResetPassword } from './reset-password.ts'
import { usersSetRole } from './set-role.ts'
import { usersToken } from './token.ts'

export const users = (cli: Cli): Command =>
  group('users', 'Manage users', [
    usersList(cli),
    usersGet(cli),
    usersAdd(cli),
    usersImport(cli),
    usersExport(cli),
    usersGroups(cli),
    usersSetRole(cli),
    usersResetPassword(cli),
    usersDisable(cli),
    usersEnable(cli),
    usersDelete(cli),
    usersToken(cli),
  ])
