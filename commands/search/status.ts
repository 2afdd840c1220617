import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const searchStatus = (cli: Cli): Command =>
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
      const found = { ...counts, updated_at: updatedAt?.toISOString() ?? null }
      const columns = [
        { name: 'engine' },
        { name: 'index' },
        { name: 'documents', align: 'right' as const },
        { name: 'database', align: 'right' as const },
        { name: 'missing', align: 'right' as const, show: 'wide' as const },
        { name: 'extra', align: 'right' as const, show: 'wide' as const },
        { name: 'drift', align: 'right' as const },
        { name: 'waiting', align: 'right' as const, show: 'wide' as const },
        { name: 'outdated', align: 'right' as const, show: 'wide' as const },
        { name: 'version', title: 'SCHEMA', align: 'right' as const },
        { name: 'updated_at', title: 'UPDATED' },
      ]
      const { isJson } = cli.options
      cli.print(isJson ? found : [found], { columns, id: 'engine' })
      if (check && (found.drift > 0 || found.outdated > 0 || found.failing > 0)) cli.exit = 'PENDING'
    })
