import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { notificationsList } from './notifications-list.ts'
import { notificationsRead } from './notifications-read.ts'

/** `dms notifications`: what dms told a user. */
export const notifications = (cli: Cli): Command =>
  group('notifications', 'What dms told you.', [notificationsList(cli), notificationsRead(cli)])
