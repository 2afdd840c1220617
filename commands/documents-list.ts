import { type Command, Option } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { durationOf } from '../src/cli/duration.ts'
import { labelIdsOf } from '../src/cli/labels.ts'
import { type ListFlags, limitOf, printList, withLimit } from '../src/cli/listing.ts'
import { manual } from '../src/cli/manual.ts'
import type { Column } from '../src/cli/output.ts'
import type { Query } from '../src/client/client.ts'
import type { DocumentView } from '../src/documents/view.ts'

export const documentColumns: Column<DocumentView>[] = [
  { name: 'id' },
  { name: 'title' },
  { name: 'status' },
  { name: 'ocr_confidence', title: 'CONF', align: 'right', value: ({ ocr_confidence: share }) => share?.toFixed(2) },
  { name: 'labels' },
  { name: 'size', align: 'right' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'filename', show: 'wide' },
  { name: 'mime_type', title: 'MIME', show: 'wide' },
  { name: 'owner', show: 'wide' },
  { name: 'source_id', title: 'SOURCE', show: 'wide' },
  { name: 'updated_at', title: 'UPDATED', show: 'wide' },
]

/** Every field but the text, which may be megabytes. */
const withoutContent = {
  id: true,
  owner_id: true,
  owner: true,
  title: true,
  filename: true,
  status: true,
  mime_type: true,
  size: true,
  sha256: true,
  language: true,
  ocr_confidence: true,
  page_count: true,
  labels: true,
  label_ids: true,
  metadata: true,
  error: true,
  duplicate_of: true,
  source_id: true,
  source_path: true,
  created_at: true,
  updated_at: true,
  processed_at: true,
} as const satisfies Record<Exclude<keyof DocumentView, 'content'>, true>

interface Flags extends ListFlags {
  status?: string
  source?: string
  label?: string
  from?: string
  to?: string
  since?: string
  owner?: string
  sort: string
  order: string
}

export const documentsList = (cli: Cli): Command =>
  withLimit(
    manual('list', {
      summary: 'List documents, newest first.',
      examples: [
        ['documents list', 'the newest 50'],
        ['documents list --status failed --all -o id', 'ids, for xargs'],
        ['documents list --since 7d --all -o csv --fields created_at,title,labels', 'for a report'],
        ['documents list --label invoices --sort size --order desc', ''],
      ],
      exits: '0 listed, also when there are none · 2 bad filter · 4 not signed in · 69 unreachable',
    })
      .alias('ls')
      .option('--status <names>', 'pending, processing, completed, failed; several with commas')
      .option('--source <id>', 'from this source only')
      .option('--label <labels>', 'with this label (name or id) only; several with commas: with all of them')
      .option('--from <date>', 'created at this time or later (2026-11-20, 2026-11-20T08:00:00Z)')
      .option('--to <date>', 'created at this time or before')
      .addOption(new Option('--since <duration>', 'created within this time, e.g. 24h or 7d').conflicts('from'))
      .option('--owner <user>', 'of this user (name or id) only; for admins')
      .addOption(
        new Option('--sort <field>', 'what counts for the order')
          .choices(['created_at', 'updated_at', 'title', 'filename', 'size', 'status', 'ocr_confidence'])
          .default('created_at'),
      )
      .addOption(new Option('--order <order>').choices(['asc', 'desc']).default('desc')),
  ).action(async (flags: Flags) => {
    const limit = limitOf(flags)
    const query = queryOf(cli, flags, limit)
    const client = await cli.client()
    const label_ids = flags.label === undefined ? undefined : (await labelIdsOf(client, flags.label)).join(',')
    await printList(cli, client.documents.list({ ...query, label_ids }), limit, { columns: documentColumns })
  })

function queryOf(cli: Cli, { status, source, from, to, since, owner, sort, order }: Flags, limit: number): Query {
  const fields = [...Object.keys(withoutContent), ...(cli.options.fields?.includes('content') ? ['content'] : [])]
  return {
    status,
    source_id: source,
    date_from: since === undefined ? from : new Date(Date.now() - durationOf('--since', since)).toISOString(),
    date_to: to,
    owner,
    sort,
    order,
    fields: fields.join(','),
    per_page: Math.min(limit, 100),
  }
}
