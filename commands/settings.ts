import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { settingsGet } from './settings-get.ts'
import { settingsSet } from './settings-set.ts'

/** `dms settings`: what a user likes; the server's own settings are `dms config`. */
export const settings = (cli: Cli): Command =>
  group('settings', 'Your settings (the server’s are in dms config).', [settingsGet(cli), settingsSet(cli)])
