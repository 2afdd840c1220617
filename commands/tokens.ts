import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { tokensCreate } from './tokens-create.ts'
import { tokensList } from './tokens-list.ts'
import { tokensRevoke } from './tokens-revoke.ts'

/** `dms tokens`: API tokens, for programs. */
export const tokens = (cli: Cli): Command =>
  group('tokens', 'API tokens: for programs that sign in without a password.', [tokensList(cli), tokensCreate(cli), tokensRevoke(cli)])
