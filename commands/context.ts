import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { contextCreate } from './context-create.ts'
import { contextList } from './context-list.ts'
import { contextRemove } from './context-remove.ts'
import { contextRename } from './context-rename.ts'
import { contextShow } from './context-show.ts'
import { contextUse } from './context-use.ts'

export const context = (cli: Cli): Command =>
  group('context', 'Contexts: the servers that commands work on.', [
    contextList(cli),
    contextUse(cli),
    contextShow(cli),
    contextCreate(cli),
    contextRename(cli),
    contextRemove(cli),
  ])
