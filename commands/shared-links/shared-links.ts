import { Option } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { futureTimeFlag, parseFutureTime } from '../../src/cli/arguments/time-span.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import { resolveSharedLink } from '../../src/cli/remote/shared-link-target.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import { runIdBatch } from '../../src/cli/runtime/run-batch.ts'
import type { SharedLink } from '../../src/client/shared-links.ts'
import { download } from './download.ts'

const columns: Column<SharedLink>[] = [
  { name: 'id' },
  // The token is shortened, because it opens the document and lists get pasted.
  { name: 'token', value: ({ token }) => `${token.slice(0, 6)}…` },
  { name: 'document_id', title: 'DOCUMENT' },
  { name: 'filename', show: 'wide' },
  { name: 'status', title: 'STATE' },
  { name: 'view_count', title: 'VIEWS', align: 'right', value: formatViews },
  { name: 'expires_at' },
  { name: 'has_password', title: 'PASSWORD', value: ({ has_password }) => (has_password ? 'yes' : 'no') },
  { name: 'created_at' },
  { name: 'created_by', show: 'wide' },
  { name: 'url', show: 'asked' },
]

function formatViews({ view_count, max_views }: SharedLink): string | number {
  return max_views === null ? view_count : `${view_count}/${max_views}`
}

export const sharedLinks = (cli: Cli) =>
  group('shared-links', 'Share documents by links', [list(cli), create(cli), revoke(cli), info(cli), download(cli)]).alias('links')

const list = (cli: Cli) =>
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
  ).action(async ({ document, state, ...flags }: ListFlags & { document?: string; state?: string }) => {
    const limit = parseLimit(flags)
    const { sharedLinks } = await cli.client()
    const query = { per_page: state === undefined ? Math.min(limit, 100) : 100 }
    const links = document === undefined ? sharedLinks.list(query) : sharedLinks.listOf(parseId(document, 'document'), query)
    await printList(cli, state === undefined ? links : filterByState(links, state), limit, { columns })
  })

async function* filterByState(links: AsyncIterable<SharedLink>, state: string): AsyncGenerator<SharedLink> {
  for await (const link of links) if (link.status === state) yield link
}

interface LinkFlags {
  expires?: string
  maxViews?: string
  withPassword?: boolean
  passwordStdin?: boolean
  passwordFile?: string
  generatePassword?: boolean
}

const create = (cli: Cli) =>
  manual('create <document>', {
    summary: 'Create a link that opens a document without an account',
    examples: [
      ['shared-links create 0192f0c1-… --expires 7d', ''],
      ['url=$(dms shared-links create "$id" --expires 48h --max-views 3)', 'prints only the URL in a script'],
      ['shared-links create 0192f0c1-… --generate-password', 'prints URL, tab, password'],
    ],
    exits: '0 created · 2 invalid value · 4 not signed in · 6 no such document · 69 server unreachable, or hourly limit of links reached',
  })
    .addOption(futureTimeFlag('--expires', 'time until expiry (7d), or a date (2026-12-31, tomorrow)'))
    .option('--max-views <n>', 'number of views')
    .option('--with-password', 'ask for a password for the link')
    .option('--password-stdin', 'read the link password from standard input')
    .option('--password-file <file>', 'read the link password from a file (also DMS_LINK_PASSWORD, DMS_LINK_PASSWORD_FILE)')
    .option('--generate-password', 'generate a link password and print it after the URL')
    .action(async (document: string, flags: LinkFlags) => {
      const max_views = flags.maxViews === undefined ? null : parseCount('--max-views', flags.maxViews)
      const password = await readPassword(cli, flags)
      const client = await cli.client()
      const expires_at = flags.expires === undefined ? null : await parseFutureTime(cli, client, '--expires', flags.expires)
      const link = await client.sharedLinks.create({ document_id: parseId(document, 'document'), password, expires_at, max_views })
      printLink(cli, link, flags.generatePassword ? password : null)
    })

/**
 * Prints only the URL in a pipe, for `url=$(dms shared-links create …)`. A generated password is in every output that does not select fields: it is
 * not shown again.
 */
function printLink(cli: Cli, link: SharedLink, generated: string | null): void {
  const { format, fields, isHuman } = cli.options
  const hasIdOnly = format === 'id' && generated !== null
  if (isHuman || hasIdOnly) cli.note(`✓ Created link to "${link.filename}" (id ${link.id})`)
  if (isHuman || hasIdOnly || (format === 'tsv' && fields === null)) cli.write(`${[link.url, generated ?? []].flat().join('\t')}\n`)
  else {
    const allColumns = columns.map((column) => (column.name === 'url' ? { name: 'url' } : column))
    const passwordColumn = { name: 'password', title: 'GENERATED PASSWORD' }
    if (generated === null) cli.print(link, { columns: allColumns })
    else cli.print({ ...link, password: generated }, { columns: [...allColumns, passwordColumn] })
  }
}

async function readPassword(cli: Cli, flags: LinkFlags): Promise<string | null> {
  const { passwordStdin: isStdin, passwordFile: file, generatePassword, withPassword } = flags
  if ([isStdin, file !== undefined, generatePassword].filter(Boolean).length > 1)
    throw usage('--password-stdin, --password-file and --generate-password exclude each other')
  if (generatePassword) return (await import('../../src/users/passwords.ts')).generatePassword()
  const { DMS_LINK_PASSWORD: text, DMS_LINK_PASSWORD_FILE: path } = cli.env
  if (!isStdin && file === undefined && !withPassword && !text && !path) return null
  return readSecret(cli.options, 'password', { isStdin, file, env: cli.env, variable: 'DMS_LINK_PASSWORD', isNew: true })
}

const revoke = (cli: Cli) =>
  manual('revoke <id...>', {
    summary: 'Revoke shared links',
    examples: [
      ['shared-links revoke 0192f0c1-…', ''],
      ['dms links list --state usable --all -o id | dms links revoke -', 'ids from a pipe'],
    ],
    exits: '0 revoked, or were revoked · 3 some could not be revoked · 5 not the owner · 6 no such link',
  })
    .alias('rm')
    .action(async (ids: string[]) =>
      runIdBatch(cli, await readIds(ids), {
        command: 'shared-links revoke',
        phase: 'revoking',
        action: 'revoked',
        noun: 'shared link',
        run: (client, id) => client.sharedLinks.revoke(id),
      }),
    )

const info = (cli: Cli) =>
  manual('info <link>', {
    summary: 'Show the document behind a shared link',
    examples: [
      ['shared-links info https://dms.example.org/api/public/shared/kR3…', ''],
      ['shared-links info kR3… -o json | jq .requires_password', ''],
    ],
    exits: '0 shown · 2 not a link · 6 no such link, expired, revoked or used up · 69 server unreachable',
    notes: ['LINK is the token or the URL. Needs no account and does not count as a view.'],
  }).action(async (link: string) => {
    const { token, publicLinks } = await resolveSharedLink(cli, link)
    const names = ['filename', 'title', 'size', 'mime_type', 'requires_password', 'expires_at', 'created_at']
    cli.print(await publicLinks.get(token), { columns: names.map((name) => ({ name, title: name.toUpperCase() })), id: 'filename' })
  })
