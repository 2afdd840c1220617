import { Option } from 'commander'
import { addFilterFlags, buildDocumentQuery, type FilterFlags } from '../../src/cli/arguments/document-filters.ts'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { addLimitFlags, type ListFlags, parseLimit, printList } from '../../src/cli/output/listing.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { mapSequential } from '../../src/cli/runtime/run-batch.ts'
import type { DocumentView } from '../../src/documents/view.ts'

const columns: Column<DocumentView>[] = [
  ...columnsOf(['id', 'title', 'status']),
  {
    name: 'ocr_confidence',
    title: 'CONF',
    align: 'right',
    value: ({ ocr_confidence: share }) => share && (Math.floor(share * 100 + 1e-6) / 100).toFixed(2),
  },
  { name: 'labels' },
  { name: 'size', align: 'right' },
  { name: 'created_at' },
  { name: 'document_date', title: 'DATE' },
  { name: 'filename', show: 'wide' },
  { name: 'mime_type', title: 'MIME', show: 'wide' },
  { name: 'owner', show: 'wide' },
  { name: 'source_id', title: 'SOURCE', show: 'wide' },
  ...columnsOf(['updated_at', 'date_source'], { show: 'wide' }),
]

/** Every field except the text, which may be megabytes. */
const fields = {
  id: true,
  owner_id: true,
  owner: true,
  title: true,
  filename: true,
  status: true,
  mime_type: true,
  size: true,
  sha256: true,
  version: true,
  language: true,
  ocr_confidence: true,
  page_count: true,
  labels: true,
  label_ids: true,
  metadata: true,
  document_date: true,
  date_source: true,
  date_confidence: true,
  error: true,
  duplicate_of: true,
  source_id: true,
  source_path: true,
  retain_until: true,
  text_source: true,
  warnings: true,
  detected_languages: true,
  split_from: true,
  created_at: true,
  updated_at: true,
  processed_at: true,
} as const satisfies Record<Exclude<keyof DocumentView, 'content' | 'content_truncated' | 'deleted_at' | 'purge_at'>, true>
export const fieldsWithoutContent = Object.keys(fields)

export const list = (cli: Cli) =>
  addLimitFlags(
    addFilterFlags(
      manual('list', {
        summary: 'List documents, newest first',
        examples: [
          ['documents list', 'the newest 50'],
          ['documents list --status failed --all -o id', 'ids, for xargs'],
          ['documents list --since 7d --all -o csv --fields created_at,title,labels', 'for a report'],
          ['documents list --date 2024..2025 --sort document_date', 'by the date on the document'],
          ['documents list --no-text --all -o csv --fields id,mime_type,text_source', 'what search cannot find by its text'],
          ['documents list --label invoices --sort size --order desc', ''],
        ],
        exits: '0 listed · 2 bad filter · 4 not signed in · 6 no such label, source or owner · 69 server unreachable',
      }).alias('ls'),
    )
      .addOption(
        new Option('--sort <field>', 'sort key')
          .choices(['created_at', 'updated_at', 'title', 'filename', 'size', 'status', 'ocr_confidence', 'document_date'])
          .default('created_at'),
      )
      .option('--split-from <id>', 'only the parts of this document')
      .addOption(new Option('--order <order>', 'sort order').choices(['asc', 'desc']).default('desc')),
  ).action(async (flags: ListFlags & FilterFlags & { sort: string; order: string; splitFrom?: string }) => {
    const limit = parseLimit(flags)
    const { sort, order, splitFrom: split_from } = flags
    const fieldNames = cli.options.fields?.includes('content') ? [...fieldsWithoutContent, 'content'] : fieldsWithoutContent
    const client = await cli.client()
    const query = {
      ...(await buildDocumentQuery(cli, client, flags)),
      split_from,
      sort,
      order,
      fields: fieldNames.join(','),
      per_page: Math.min(limit, 100),
    }
    await printList(cli, client.documents.list(query), limit, { columns })
  })

/** Every field of a document, for commands that print a single document. */
export const allDocumentColumns: Column<DocumentView>[] = [
  ...columnsOf(['id', 'title', 'filename', 'status']),
  { name: 'error', value: ({ error }) => error && `${error.code}: ${error.message}` },
  { name: 'warnings', value: ({ warnings }) => warnings.map(({ code, message }) => `${code}: ${message}`).join(' ') || null },
  { name: 'mime_type', title: 'MIME' },
  ...columnsOf(['size', 'sha256', 'version', 'owner', 'labels', 'language']),
  { name: 'detected_languages', title: 'DETECTED' },
  { name: 'page_count', title: 'PAGES' },
  { name: 'ocr_confidence', title: 'CONF' },
  { name: 'text_source', title: 'TEXT' },
  { name: 'document_date', title: 'DATE' },
  ...columnsOf(['date_source', 'date_confidence']),
  { name: 'duplicate_of' },
  { name: 'source_id', title: 'SOURCE' },
  ...columnsOf(['source_path', 'retain_until', 'created_at', 'updated_at', 'processed_at', 'metadata']),
  { name: 'content', show: 'asked' },
]

/** Adds the id to the message of a missing document, which may be one of many. */
const withId = (error: Error & { status?: number }, id: string): Error =>
  error.status === 404 ? Object.assign(error, { message: `${id}: ${error.message}` }) : error

export const get = (cli: Cli) =>
  manual('get <id...>', {
    summary: 'Show documents',
    examples: [
      ['documents get 0192f0c1-…', 'one field per line'],
      ['documents get 0192f0c1-… -o json | jq -r .sha256', 'all fields; the text is in "content"'],
      ['documents get 0192f0c1-… 0192f0c2-… -o csv', 'several documents as a list'],
      ['dms documents list --label q4 -o id | dms documents get - -o jsonl', 'ids from a pipe'],
    ],
    exits: '0 shown · 4 not signed in · 6 no such document · 69 server unreachable',
  }).action(async (idArguments: string[]) => {
    const ids = (await readIds(idArguments)).map((id) => parseId(id, 'document'))
    const client = await cli.client()
    const documents = await mapSequential(ids, (id) => client.documents.get(id).catch((error) => Promise.reject(withId(error, id))))
    const [first] = documents
    if (first && documents.length === 1) cli.print(first, { columns: allDocumentColumns })
    else cli.print(documents, { columns })
  })
