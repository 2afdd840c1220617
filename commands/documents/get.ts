import type { Command } from 'commander'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { mapSequential } from '../../src/cli/runtime/run-batch.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { documentColumns } from './list.ts'

/** Every field of a document, for the output of a single one. */
export const allDocumentColumns: Column<DocumentView>[] = [
  { name: 'id' },
  { name: 'title' },
  { name: 'filename' },
  { name: 'status' },
  { name: 'error', value: ({ error }) => error && `${error.code}: ${error.message}` },
  { name: 'mime_type', title: 'MIME' },
  { name: 'size' },
  { name: 'sha256' },
  { name: 'owner' },
  { name: 'labels' },
  { name: 'language' },
  { name: 'page_count', title: 'PAGES' },
  { name: 'ocr_confidence', title: 'CONF' },
  { name: 'duplicate_of' },
  { name: 'source_id', title: 'SOURCE' },
  { name: 'source_path' },
  { name: 'created_at', title: 'CREATED' },
  { name: 'updated_at', title: 'UPDATED' },
  { name: 'processed_at', title: 'PROCESSED' },
  { name: 'metadata' },
  { name: 'content', show: 'asked' },
]

export const documentsGet = (cli: Cli): Command =>
  manual('get <id...>', {
    summary: 'Show documents',
    examples: [
      ['documents get 0192f0c1-…', 'one field per line'],
      ['documents get 0192f0c1-… -o json | jq -r .sha256', 'all fields; the text is in "content"'],
      ['documents get 0192f0c1-… 0192f0c2-… -o csv', 'several documents as a list'],
    ],
    exits: '0 shown · 4 not signed in · 6 no such document · 69 server unreachable',
  }).action(async (given: string[]) => {
    const ids = given.map((id) => parseId(id, 'document'))
    const client = await cli.client()
    const documents = await mapSequential(ids, (id) => client.documents.get(id))
    const [first] = documents
    if (first && documents.length === 1) cli.print(first, { columns: allDocumentColumns })
    else cli.print(documents, { columns: documentColumns })
  })
