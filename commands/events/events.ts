import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { eventsTail } from './tail.ts'

export const events = (cli: Cli): Command => group('events', 'Follow events of the server', [eventsTail(cli)])
