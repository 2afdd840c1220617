import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { group, manual } from '../../src/cli/output/manual.ts'
import { type Column, columnsOf, type PlainColumn } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'
import { dms } from '../../src/log/fix.ts'
import { query } from './query.ts'
import { reindex } from './reindex.ts'
import { verify } from './verify.ts'

export const search = (cli: Cli) => {
  const commands = [query(cli), similar(cli), suggest(cli), reindex(cli), status(cli), verify(cli)]
  const command = group('search', 'Search documents and manage the index', commands)
  command.on('command:*', (words: string[]) => {
    const fix = ['to find documents: ', dms`search query ${words.join(' ')}`, '; its commands: ', dms`search --help`]
    throw usage(`unknown command '${words[0]}'`, fix)
  })
  return command
}

type Hit = Awaited<ReturnType<Client['search']['similar']>>[number]

const hitColumns: Column<Hit>[] = [
  { name: 'score', align: 'right', value: ({ score }) => score.toFixed(2) },
  { name: 'document_id', title: 'ID' },
  { name: 'title' },
  { name: 'mime_type', title: 'TYPE' },
  { name: 'created_at', show: 'wide' },
]

const similar = (cli: Cli) =>
  manual('similar <id>', {
    summary: 'Find documents similar to one',
    examples: [
      ['search similar 0198a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b', ''],
      ['search similar 0198a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b --limit 3 -o id', 'ids, for a script'],
    ],
    exits: '0 searched, also without matches · 2 bad limit · 4 not signed in · 6 no such document · 69 search unreachable',
  })
    .option('--limit <n>', 'maximum number of results (up to 50)', '10')
    .action(async (id: string, flags: { limit: string }) => {
      const limit = parseCount('--limit', flags.limit, { max: 50 })
      const client = await cli.client()
      cli.print(await client.search.similar(id, limit), { columns: hitColumns, id: 'document_id' })
    })

const suggest = (cli: Cli) =>
  manual('suggest <text...>', {
    summary: 'Suggest completions of a query',
    examples: [
      ['search suggest inv', 'invoice, inventory, …'],
      ['search suggest telecom inv -o id', 'whole queries, one per line'],
    ],
    exits: '0 printed, also without suggestions · 2 bad limit · 4 not signed in · 69 search unreachable',
  })
    .option('--limit <n>', 'maximum number of suggestions (up to 20)', '10')
    .action(async (text: string[], flags: { limit: string }) => {
      const limit = parseCount('--limit', flags.limit, { max: 20 })
      const client = await cli.client()
      const columns: PlainColumn[] = [{ name: 'text' }, { name: 'documents', align: 'right' }]
      cli.print(await client.search.suggest(text.join(' '), limit), { columns, id: 'text' })
    })

const statusColumns: PlainColumn[] = [
  ...columnsOf(['engine', 'index']),
  ...columnsOf(['documents', 'database'], { align: 'right' }),
  ...columnsOf(['missing', 'extra'], { align: 'right', show: 'wide' }),
  { name: 'drift', align: 'right' },
  ...columnsOf(['waiting', 'outdated'], { align: 'right', show: 'wide' }),
  { name: 'version', title: 'SCHEMA', align: 'right' },
  { name: 'updated_at' },
]

const status = (cli: Cli) =>
  manual('status', {
    summary: 'Show the state of the search index',
    examples: [
      ['search status', ''],
      ['dms search status --check -q || dms search reindex --if-needed', 'for a script: exit 8 if the index is incomplete'],
    ],
    exits: '0 shown · 8 index incomplete, with --check · 69 database or search unreachable',
    notes: [
      'Runs on the server only. The index is complete if no entry is missing, extra or outdated, and no document failed to be indexed.',
      'In PostgreSQL the entries are compared one by one. In Meilisearch only their number is; search verify compares them all.',
      'A worker indexes documents in the background, so new documents may be missing for a moment.',
    ],
  })
    .option('--check', 'exit 8 if the index is incomplete')
    .action(async ({ check }: { check?: boolean }) => {
      const app = await cli.app('search status')
      const { status } = await import('../../src/search/reindex.ts')
      const { updatedAt, ...counts } = await status(app)
      const row = { ...counts, updated_at: updatedAt?.toISOString() ?? null }
      if (check && (row.drift > 0 || row.outdated > 0 || row.failing > 0)) cli.exit = 'PENDING'
      cli.print(cli.options.isJson ? row : [row], { columns: statusColumns, id: 'engine', isQuery: !check })
    })
