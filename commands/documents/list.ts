import { type Command, Option } from 'commander'
import { addFilterFlags, buildDocumentQuery, type FilterFlags } from '../../src/cli/arguments/document-filters.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { DocumentView } from '../../src/documents/view.ts'

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

/** Every field except the text, which may be megabytes. */
export const fieldsWithoutContent = {
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
} as const satisfies Record<Exclude<keyof DocumentView, 'content' | 'content_truncated'>, true>

interface Flags extends ListFlags, FilterFlags {
  sort: string
  order: string
}

export const documentsList = (cli: Cli): Command =>
  addLimitFlags(
    addFilterFlags(
      manual('list', {
        summary: 'List documents, newest first',
        examples: [
          ['documents list', 'the newest 50'],
          ['documents list --status failed --all -o id', 'ids, for xargs'],
          ['documents list --since 7d --all -o csv --fields created_at,title,labels', 'for a report'],
          ['documents list --label invoices --sort size --order desc', ''],
        ],
        exits: '0 listed · 2 bad filter · 4 not signed in · 6 no such label, source or owner · 69 server unreachable',
      }).alias('ls'),
    )
      .addOption(
        new Option('--sort <field>', 'sort key')
          .choices(['created_at', 'updated_at', 'title', 'filename', 'size', 'status', 'ocr_confidence'])
          .default('created_at'),
      )
      .addOption(new Option('--order <order>', 'sort order').choices(['asc', 'desc']).default('desc')),
  ).action(async (flags: Flags) => {
    const limit = parseLimit(flags)
    const { sort, order } = flags
    const fields = [...Object.keys(fieldsWithoutContent), ...(cli.options.fields?.includes('content') ? ['content'] : [])].join(',')
    const client = await cli.client()
    const query = { ...(await buildDocumentQuery(client, flags)), sort, order, fields, per_page: Math.min(limit, 100) }
    await printList(cli, client.documents.list(query), limit, { columns: documentColumns })
  })
