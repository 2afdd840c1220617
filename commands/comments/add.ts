import type { Command } from 'commander'
import { readBodyText } from '../../src/cli/arguments/body-text.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commentColumns } from './list.ts'

interface Flags {
  bodyFile?: string
  replyTo?: string
}

export const commentsAdd = (cli: Cli): Command =>
  manual('add <document> [text...]', {
    summary: 'Comment on a document or reply to a comment',
    examples: [
      ['comments add 0192f0c1-… Please pay until Friday.', ''],
      ['comments add 0192f0c1-… --reply-to 0192f0c2-… Done.', ''],
      ['git log -1 | dms comments add 0192f0c1-… --body-file -', 'from a pipe'],
    ],
    exits:
      '0 added · 2 empty, too long, or a reply to a reply · 5 the operator cannot comment: pass --as USER · 6 no such document or comment · 69 server unreachable',
  })
    .option('--body-file <file>', 'read the text from this file; - reads standard input')
    .option('--reply-to <comment>', 'reply to this comment')
    .action(async (given: string, words: string[], { bodyFile, replyTo }: Flags) => {
      const document = parseId(given, 'document')
      const parent_id = replyTo === undefined ? null : parseId(replyTo, 'comment')
      const content = await readBodyText(cli.options, words, bodyFile)
      const client = await cli.client()
      const comment = await client.comments.create(document, { content, parent_id })
      cli.print(comment, { columns: commentColumns, sentence: `✓ Added comment (id ${comment.id})` })
    })
