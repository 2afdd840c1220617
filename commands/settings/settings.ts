import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { settingsGet } from './get.ts'
import { settingsSet } from './set.ts'

/** `dms settings`: what a user likes; the server's own settings are `dms config`. */
export const settings = (cli: Cli): Command =>
  group('settings', 'Your settings (the server’s are in dms config).', [settingsGet(cli), settingsSet(cli)])
