import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { labelsAssign } from './assign.ts'
import { labelsCreate } from './create.ts'
import { labelsDelete } from './delete.ts'
import { labelsList } from './list.ts'
import { labelsUnassign } from './unassign.ts'
import { labelsUpdate } from './update.ts'

export const labels = (cli: Cli): Command =>
  group('labels', 'Manage labels', [
    labelsList(cli),
    labelsCreate(cli),
    labelsUpdate(cli),
    labelsDelete(cli),
    labelsAssign(cli),
    labelsUnassign(cli),
  ])
