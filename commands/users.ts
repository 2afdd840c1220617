import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { usersAdd } from './users-add.ts'
import { usersDelete } from './users-delete.ts'
import { usersDisable } from './users-disable.ts'
import { usersEnable } from './users-enable.ts'
import { usersExport } from './users-export.ts'
import { usersGet } from './users-get.ts'
import { usersGroups } from './users-groups.ts'
import { usersImport } from './users-import.ts'
import { usersList } from './users-list.ts'
import { usersResetPassword } from './users-reset-password.ts'
import { usersSetRole } from './users-set-role.ts'
import { usersToken } from './users-token.ts'

/** `dms users`: who may sign in. */
export const users = (cli: Cli): Command =>
  group('users', 'Users: who may sign in.', [
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
