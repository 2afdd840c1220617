import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const searchStatus = (cli: Cli): Command =>
  manual('status', {
    summary: 'Say how much of the documents the search index holds. Runs on the server only.',
    examples: [
      ['search status', ''],
      ['dms search status --check -q || dms search reindex --if-needed', 'for a script: 8 where documents are missing'],
    ],
    exits: '0 said · 8 the index is not whole, with --check · 69 database or search unreachable',
    notes: [
      'Whole: no entry is missing, too many or in an older form, and no change of a document has been tried in vain. In PostgreSQL entries are compared one by one;',
      'of Meilisearch only their number is, so that one too many hides one that is missing: search verify compares all of them, on both.',
      'Documents are indexed by a worker, so that a number of new ones may be missing for a moment.',
    ],
  })
    .option('--check', 'exit 8 where the index is not whole')
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
