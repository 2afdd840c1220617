import type { Command } from 'commander'
import { readBodyText } from '../../src/cli/arguments/body-text.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { commentColumns } from './list.ts'

export const commentsEdit = (cli: Cli): Command =>
  manual('edit <document> <comment> [text...]', {
    summary: 'Edit one of your comments',
    examples: [
      ['comments edit 0192f0c1-… 0192f0c2-… Please pay until Monday.', ''],
      ['comments edit 0192f0c1-… 0192f0c2-… --body-file note.txt', ''],
    ],
    exits: '0 changed · 2 empty or too long · 5 not the author · 6 no such document or comment · 69 server unreachable',
  })
    .option('--body-file <file>', 'read the text from this file; - reads standard input')
    .action(async (given: string, which: string, words: string[], { bodyFile }: { bodyFile?: string }) => {
      const [document, id] = [parseId(given, 'document'), parseId(which, 'comment')]
      const content = await readBodyText(cli.options, words, bodyFile)
      const client = await cli.client()
      const comment = await client.comments.update(document, id, content)
      cli.print(comment, { columns: commentColumns, sentence: '✓ Updated comment' })
    })
