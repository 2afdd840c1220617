import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { sharedLinksCreate } from './shared-links-create.ts'
import { sharedLinksDownload } from './shared-links-download.ts'
import { sharedLinksInfo } from './shared-links-info.ts'
import { sharedLinksList } from './shared-links-list.ts'
import { sharedLinksRevoke } from './shared-links-revoke.ts'

/** `dms shared-links`: documents for people without an account. */
export const sharedLinks = (cli: Cli): Command =>
  group('shared-links', 'Links to documents for people without an account.', [
    sharedLinksList(cli),
    sharedLinksCreate(cli),
    sharedLinksRevoke(cli),
    sharedLinksInfo(cli),
    sharedLinksDownload(cli),
  ]).alias('links')
