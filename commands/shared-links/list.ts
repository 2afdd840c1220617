import { type Command, Option } from 'commander'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { SharedLink } from '../../src/client/shared-links.ts'

interface Flags extends ListFlags {
  document?: string
  state?: string
}

export const linkColumns: Column<SharedLink>[] = [
  { name: 'id' },
  // The token is shortened, because it opens the document and lists get pasted.
  { name: 'token', value: ({ token }) => `${token.slice(0, 6)}…` },
  { name: 'document_id', title: 'DOCUMENT' },
  { name: 'filename', show: 'wide' },
  { name: 'status', title: 'STATE' },
  {
    name: 'view_count',
    title: 'VIEWS',
    align: 'right',
    value: ({ view_count, max_views }) => (max_views === null ? view_count : `${view_count}/${max_views}`),
  },
  { name: 'expires_at', title: 'EXPIRES' },
  { name: 'has_password', title: 'PASSWORD', value: ({ has_password }) => (has_password ? 'yes' : 'no') },
  { name: 'created_at', title: 'CREATED' },
  { name: 'created_by', show: 'wide' },
  { name: 'url', show: 'asked' },
]

export const sharedLinksList = (cli: Cli): Command =>
  addLimitFlags(
    manual('list', {
      summary: 'List shared links, newest first',
      examples: [
        ['shared-links list --state usable', 'links that still work'],
        ['shared-links list --document 0192f0c1-… -o json | jq -r .[].url', 'the URLs'],
        ['dms links list --state expired --all -o id | dms links revoke -', ''],
      ],
      exits: '0 listed · 2 bad filter · 4 not signed in · 6 no such document · 69 server unreachable',
    })
      .alias('ls')
      .option('--document <id>', 'only links to this document')
      .addOption(new Option('--state <state>', 'only links in this state').choices(['usable', 'expired', 'revoked', 'exhausted'])),
  ).action(async (flags: Flags) => {
    const limit = parseLimit(flags)
    const { document, state } = flags
    const { sharedLinks } = await cli.client()
    const query = { per_page: state === undefined ? Math.min(limit, 100) : 100 }
    const links = document === undefined ? sharedLinks.list(query) : sharedLinks.listOf(parseId(document, 'document'), query)
    await printList(cli, state === undefined ? links : filterByState(links, state), limit, { columns: linkColumns })
  })

async function* filterByState(links: AsyncIterable<SharedLink>, state: string): AsyncGenerator<SharedLink> {
  for await (const link of links) if (link.status === state) yield link
}
