import type { Command } from 'commander'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { confirm } from '../../src/cli/arguments/prompt.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const commentsDelete = (cli: Cli): Command =>
  manual('delete <document> <comment>', {
    summary: 'Delete a comment and its replies',
    examples: [
      ['comments delete 0192f0c1-… 0192f0c2-…', 'asks first'],
      ['comments delete 0192f0c1-… 0192f0c2-… --yes', 'for a script'],
    ],
    exits:
      '0 deleted · 2 no terminal to confirm on, and no --yes · 5 not the author · 6 no such document or comment · 69 server unreachable',
  })
    .alias('rm')
    .option('-y, --yes', 'delete without asking')
    .action(async (given: string, which: string, { yes }: { yes?: boolean }) => {
      const [document_id, id] = [parseId(given, 'document'), parseId(which, 'comment')]
      if (!yes) await confirm(cli.options, 'Delete this comment and its replies?', '--yes')
      const client = await cli.client()
      await client.comments.delete(document_id, id)
      cli.print({ id, document_id }, { columns: [{ name: 'id' }, { name: 'document_id' }], sentence: '✓ Deleted comment' })
    })
