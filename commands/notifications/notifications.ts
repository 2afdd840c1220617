import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { notificationsList } from './list.ts'
import { notificationsRead } from './read.ts'

export const notifications = (cli: Cli): Command =>
  group('notifications', 'List notifications and mark them as read', [notificationsList(cli), notificationsRead(cli)])
