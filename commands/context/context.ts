import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { contextCreate } from './create.ts'
import { contextList } from './list.ts'
import { contextRemove } from './remove.ts'
import { contextRename } from './rename.ts'
import { contextShow } from './show.ts'
import { contextUse } from './use.ts'

export const context = (cli: Cli): Command =>
  group('context', 'Manage saved servers', [
    contextList(cli),
    contextUse(cli),
    contextShow(cli),
    contextCreate(cli),
    contextRename(cli),
    contextRemove(cli),
  ])
