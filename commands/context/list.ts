import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { contextColumns, listContextRows } from '../../src/cli/remote/context-rows.ts'
import { loadContexts } from '../../src/cli/remote/contexts-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const contextList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List contexts',
    examples: [
      ['context list', ''],
      ['context list -o id', 'names only'],
    ],
    exits: '0 listed · 78 contexts.toml invalid',
    notes: ['"local" is this machine.'],
  })
    .alias('ls')
    .action(async () => cli.print(await listContextRows(await loadContexts(cli.env), cli.env), { columns: contextColumns, id: 'name' }))
