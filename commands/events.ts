import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { eventsTail } from './events-tail.ts'

export const events = (cli: Cli): Command => group('events', 'Events: what happens on the server, as it happens.', [eventsTail(cli)])
