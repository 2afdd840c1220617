import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commentsAdd } from './add.ts'
import { commentsDelete } from './delete.ts'
import { commentsEdit } from './edit.ts'
import { commentsList } from './list.ts'

export const comments = (cli: Cli): Command =>
  group('comments', 'Manage comments on documents', [commentsList(cli), commentsAdd(cli), commentsEdit(cli), commentsDelete(cli)])
