import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { loadStates, withDatabase } from './database.ts'

export const migrateStatus = (cli: Cli): Command =>
  manual('status', {
    summary: 'List all migrations and their state',
    examples: [
      ['migrate status', ''],
      ["migrate status -o json | jq -r '.pending[]'", ''],
    ],
    exits: '0 listed · 69 database unreachable',
    notes: ['-o json prints one object: current, target, pending, unknown (applied by a newer dms) and migrations (all).'],
  }).action(() =>
    withDatabase(cli, 'migrate status', {}, async (database) => {
      const rows = (await loadStates(database)).map(({ name, applied_at, unknown }) => ({
        name,
        state: unknown ? 'unknown' : applied_at === null ? 'pending' : 'applied',
        applied_at: applied_at?.toISOString() ?? null,
      }))
      const named = (state: string) => rows.filter((row) => row.state === state).map(({ name }) => name)
      if (cli.options.format === 'json') {
        const current = named('applied').at(-1) ?? null
        const target = rows.findLast(({ state }) => state !== 'unknown')?.name ?? null
        return cli.print({ current, target, pending: named('pending'), unknown: named('unknown'), migrations: rows }, { columns: [] })
      }
      cli.print(rows, { columns: [{ name: 'name' }, { name: 'state' }, { name: 'applied_at' }], id: 'name' })
    }),
  )
