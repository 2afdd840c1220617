import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { configCheck } from './check.ts'
import { configEnv } from './env.ts'
import { configInit } from './init.ts'
import { configShow } from './show.ts'

export const config = (cli: Cli): Command =>
  group('config', 'Check, show and write the configuration', [configCheck(cli), configShow(cli), configInit(cli), configEnv(cli)])
