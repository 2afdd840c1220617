import type { Command } from 'commander'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { Client } from '../../src/client/client.ts'

export type Comment = Awaited<ReturnType<Client['comments']['create']>>

export const commentColumns: Column<Comment>[] = [
  { name: 'id' },
  { name: 'parent_id', title: 'REPLY_TO', show: 'wide' },
  { name: 'username', title: 'USER' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'content' },
  { name: 'is_edited', title: 'EDITED', show: 'wide' },
]

export const commentsList = (cli: Cli): Command =>
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
  ).action(async (given: string, flags: ListFlags) => {
    const limit = parseLimit(flags)
    const client = await cli.client()
    await printList(cli, flattenThreads(client, parseId(given, 'document')), limit, { columns: commentColumns })
  })

/** Yields each comment, followed by its replies. */
async function* flattenThreads({ comments }: Client, document: string): AsyncGenerator<Comment> {
  for await (const { replies, reply_count, ...comment } of comments.all(document)) {
    yield comment
    if (reply_count > replies.length) yield* comments.allReplies(document, comment.id)
    else yield* replies
  }
}
