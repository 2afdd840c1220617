import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { tokensCreate } from './create.ts'
import { tokensList } from './list.ts'
import { tokensRevoke } from './revoke.ts'

export const tokens = (cli: Cli): Command => group('tokens', 'Manage API tokens', [tokensList(cli), tokensCreate(cli), tokensRevoke(cli)])
