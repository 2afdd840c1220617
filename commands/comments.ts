import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { commentsAdd } from './comments-add.ts'
import { commentsDelete } from './comments-delete.ts'
import { commentsEdit } from './comments-edit.ts'
import { commentsList } from './comments-list.ts'

/** `dms comments`: what is said about a document. */
export const comments = (cli: Cli): Command =>
  group('comments', 'What is said about a document.', [commentsList(cli), commentsAdd(cli), commentsEdit(cli), commentsDelete(cli)])
