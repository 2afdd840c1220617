import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { labelsAssign } from './labels-assign.ts'
import { labelsCreate } from './labels-create.ts'
import { labelsDelete } from './labels-delete.ts'
import { labelsList } from './labels-list.ts'
import { labelsUnassign } from './labels-unassign.ts'
import { labelsUpdate } from './labels-update.ts'

/** `dms labels`: what documents are sorted by. */
export const labels = (cli: Cli): Command =>
  group('labels', 'Labels, and which documents have them.', [
    labelsList(cli),
    labelsCreate(cli),
    labelsUpdate(cli),
    labelsDelete(cli),
    labelsAssign(cli),
    labelsUnassign(cli),
  ])
