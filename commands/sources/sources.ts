import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { sourcesAdd } from './add.ts'
import { sourcesGet } from './get.ts'
import { sourcesList } from './list.ts'
import { sourcesRemove } from './remove.ts'
import { sourcesRotateKey } from './rotate-key.ts'
import { sourcesStatus } from './status.ts'
import { sourcesSync } from './sync.ts'
import { sourcesTest } from './test.ts'
import { sourcesUpdate } from './update.ts'

export const sources = (cli: Cli): Command =>
  group('sources', 'Manage and sync sources of documents', [
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
