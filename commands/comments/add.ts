import type { Command } from 'commander'
import { bodyText } from '../../src/cli/arguments/body-text.ts'
import { idOf } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commentColumns } from './list.ts'

interface Flags {
  bodyFile?: string
  replyTo?: string
}

export const commentsAdd = (cli: Cli): Command =>
  manual('add <document> [text...]', {
    summary: 'Comment on a document, or answer a comment.',
    examples: [
      ['comments add 0192f0c1-… Please pay until Friday.', ''],
      ['comments add 0192f0c1-… --reply-to 0192f0c2-… Done.', ''],
      ['git log -1 | dms comments add 0192f0c1-… --body-file -', 'from a pipe'],
    ],
    exits:
      '0 said · 2 empty, too long, or an answer to an answer · 5 not as the operator: pass --as USER · 6 no such document or comment · 69 unreachable',
  })
    .option('--body-file <file>', 'the text is in this file; - reads standard input')
    .option('--reply-to <comment>', 'answer this comment')
    .action(async (given: string, words: string[], { bodyFile, replyTo }: Flags) => {
      const document = idOf(given, 'document')
      const parent_id = replyTo === undefined ? null : idOf(replyTo, 'comment')
      const content = await bodyText(cli.options, words, bodyFile)
      const client = await cli.client()
      const comment = await client.comments.create(document, { content, parent_id })
      cli.print(comment, { columns: commentColumns, sentence: `✓ Comment made (id ${comment.id})` })
    })
