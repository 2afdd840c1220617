import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { sharedLinksCreate } from './create.ts'
import { sharedLinksDownload } from './download.ts'
import { sharedLinksInfo } from './info.ts'
import { sharedLinksList } from './list.ts'
import { sharedLinksRevoke } from './revoke.ts'

export const sharedLinks = (cli: Cli): Command =>
  group('shared-links', 'Share documents by links', [
    sharedLinksList(cli),
    sharedLinksCreate(cli),
    sharedLinksRevoke(cli),
    sharedLinksInfo(cli),
    sharedLinksDownload(cli),
  ]).alias('links')
