import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { confirm, promptLine } from '../../src/cli/arguments/prompt.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { GlobalOptions } from '../../src/cli/runtime/options.ts'
import type { Client } from '../../src/client/client.ts'

const columns: Column<{ username: string; user_id: string | null }>[] = [
  { name: 'id' },
  { name: 'parent_id', title: 'REPLY_TO', show: 'wide' },
  { name: 'username', title: 'USER', value: ({ username, user_id }) => (user_id === null ? `${username} (deleted)` : username) },
  ...columnsOf(['created_at', 'content']),
  { name: 'is_edited', title: 'EDITED', show: 'wide' },
]

export const comments = (cli: Cli) => group('comments', 'Manage comments on documents', [list(cli), add(cli), edit(cli), remove(cli)])

const list = (cli: Cli) =>
  addLimitFlags(
    manual('list <document>', {
      summary: 'List comments on a document, newest first',
      examples: [
        ['comments list 0192f0c1-…', ''],
        ['comments list 0192f0c1-… --all -o json', 'with parent_id, which marks replies'],
      ],
      exits: '0 listed · 4 not signed in · 6 no such document · 69 server unreachable',
      notes: ['Each comment is followed by its replies.'],
    }).alias('ls'),
  ).action(async (document: string, flags: ListFlags) => {
    const limit = parseLimit(flags)
    const client = await cli.client()
    await printList(cli, flattenThreads(client, parseId(document, 'document')), limit, { columns })
  })

/** Yields each comment, followed by its replies. */
async function* flattenThreads({ comments }: Client, document: string) {
  for await (const { replies, reply_count, ...comment } of comments.all(document)) {
    yield comment
    if (reply_count > replies.length) yield* comments.allReplies(document, comment.id)
    else yield* replies
  }
}

const add = (cli: Cli) =>
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
    .action(async (document: string, words: string[], { bodyFile, replyTo }: { bodyFile?: string; replyTo?: string }) => {
      const documentId = parseId(document, 'document')
      const parent_id = replyTo === undefined ? null : parseId(replyTo, 'comment')
      const content = await readBodyText(cli.options, words, bodyFile)
      const client = await cli.client()
      const comment = await client.comments.create(documentId, { content, parent_id })
      cli.print(comment, { columns, sentence: `✓ Added comment (id ${comment.id})` })
    })

const edit = (cli: Cli) =>
  manual('edit <document> <comment> [text...]', {
    summary: 'Edit one of your comments',
    examples: [
      ['comments edit 0192f0c1-… 0192f0c2-… Please pay until Monday.', ''],
      ['comments edit 0192f0c1-… 0192f0c2-… --body-file note.txt', ''],
    ],
    exits: '0 changed · 2 empty or too long · 5 not the author · 6 no such document or comment · 69 server unreachable',
  })
    .option('--body-file <file>', 'read the text from this file; - reads standard input')
    .action(async (document: string, comment: string, words: string[], { bodyFile }: { bodyFile?: string }) => {
      const [documentId, id] = [parseId(document, 'document'), parseId(comment, 'comment')]
      const content = await readBodyText(cli.options, words, bodyFile)
      const client = await cli.client()
      cli.print(await client.comments.update(documentId, id, content), { columns, sentence: '✓ Updated comment' })
    })

const remove = (cli: Cli) =>
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
    .action(async (document: string, comment: string, { yes }: { yes?: boolean }) => {
      const [document_id, id] = [parseId(document, 'document'), parseId(comment, 'comment')]
      if (!yes) await confirm(cli.options, 'Delete this comment and its replies?')
      const client = await cli.client()
      await client.comments.delete(document_id, id)
      cli.print({ id, document_id }, { columns: columnsOf(['id', 'document_id']), sentence: '✓ Deleted comment' })
    })

/** Reads the text from `words`, else from `file` ("-": standard input), else by a prompt. Strips the last line break. Throws Failure USAGE. */
async function readBodyText(
  options: Pick<GlobalOptions, 'canPrompt'>,
  words: readonly string[],
  file: string | undefined,
): Promise<string> {
  if (words.length > 0 && file !== undefined) throw usage('the text is both an argument and in --body-file', 'pass one of them')
  if (words.length > 0) return words.join(' ')
  if (file === undefined) return promptLine(options, 'Comment:', 'the text, or --body-file FILE')
  try {
    return (file === '-' ? await text(process.stdin) : await readFile(file, 'utf8')).replace(/\r?\n$/, '')
  } catch (error) {
    throw usage(`--body-file: ${(error as Error).message}`)
  }
}
