import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { commonExits, loadStates, withDatabase } from './database.ts'

export const migrateCheck = (cli: Cli): Command =>
  manual('check', {
    summary: 'Exit 8 if migrations are pending',
    examples: [['dms migrate check -q || dms migrate', 'for a start script']],
    exits: `0 current · 8 migrations pending · ${commonExits}`,
  }).action(() =>
    withDatabase(cli, 'migrate check', {}, async (database) => {
      const states = await loadStates(database)
      const { NewerSchema } = await import('../../src/db/migrate.ts')
      const newer = states.filter(({ unknown }) => unknown)
      if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
      const pending = states.filter(({ applied_at }) => applied_at === null)
      if (pending.length > 0) throw new Failure('PENDING', `${pending.length} migrations are pending`, { fix: 'dms migrate' })
      const current = states.at(-1)?.name ?? null
      cli.print({ current, pending: [] }, { columns: [{ name: 'current' }], id: 'current', sentence: '✓ The schema is current' })
    }),
  )
