import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { settingsGet } from './get.ts'
import { settingsSet } from './set.ts'

export const settings = (cli: Cli): Command => group('settings', 'Show and change your user settings', [settingsGet(cli), settingsSet(cli)])
