import type { Command } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import type { Client } from '../../src/client/client.ts'

type Hit = Awaited<ReturnType<Client['search']['similar']>>[number]

const columns: Column<Hit>[] = [
  { name: 'score', align: 'right', value: ({ score }) => score.toFixed(2) },
  { name: 'document_id', title: 'ID' },
  { name: 'title' },
  { name: 'mime_type', title: 'TYPE' },
  { name: 'created_at', title: 'CREATED', show: 'wide' },
]

export const searchSimilar = (cli: Cli): Command =>
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
      cli.print(await client.search.similar(id, limit), { columns, id: 'document_id' })
    })
