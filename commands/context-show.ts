import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { contextColumns, contextRows } from '../src/cli/context-rows.ts'
import { contextNamed, local, readContexts } from '../src/cli/contexts.ts'
import { manual } from '../src/cli/manual.ts'

export const contextShow = (cli: Cli): Command =>
  manual('show [name]', {
    summary: 'Show a context; without a name the one in use.',
    examples: [
      ['context show', ''],
      ['context show prod -o json', ''],
    ],
    exits: '0 shown · 6 no such context',
  }).action(async (given: string | undefined) => {
    const contexts = await readContexts(cli.env)
    const name = given ?? cli.target.name
    if (name !== local) contextNamed(contexts, name)
    const columns = contextColumns.map(({ show: _wide, ...column }) => column)
    for (const row of await contextRows(contexts, cli.env)) if (row.name === name) cli.print(row, { columns, id: 'name' })
  })
