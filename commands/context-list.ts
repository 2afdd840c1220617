import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { contextColumns, contextRows } from '../src/cli/context-rows.ts'
import { readContexts } from '../src/cli/contexts-file.ts'
import { manual } from '../src/cli/manual.ts'

export const contextList = (cli: Cli): Command =>
  manual('list', {
    summary: 'List this machine and the servers that are known by name.',
    examples: [
      ['context list', ''],
      ['context list -o id', 'names alone'],
    ],
    exits: '0 listed · 78 contexts.toml is not right',
  })
    .alias('ls')
    .action(async () => cli.print(await contextRows(await readContexts(cli.env), cli.env), { columns: contextColumns, id: 'name' }))
