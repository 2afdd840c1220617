import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { sourcesAdd } from './sources-add.ts'
import { sourcesGet } from './sources-get.ts'
import { sourcesList } from './sources-list.ts'
import { sourcesRemove } from './sources-remove.ts'
import { sourcesRotateKey } from './sources-rotate-key.ts'
import { sourcesStatus } from './sources-status.ts'
import { sourcesSync } from './sources-sync.ts'
import { sourcesTest } from './sources-test.ts'
import { sourcesUpdate } from './sources-update.ts'

/** `dms sources`: where documents are pulled from. */
export const sources = (cli: Cli): Command =>
  group('sources', 'Sources: where documents are pulled from.', [
    sourcesList(cli),
    sourcesGet(cli),
    sourcesAdd(cli),
    sourcesUpdate(cli),
    sourcesRemove(cli),
    sourcesTest(cli),
    sourcesSync(cli),
    sourcesStatus(cli),
    sourcesRotateKey(cli),
  ])
