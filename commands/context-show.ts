import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { contextRow, printContext } from '../src/cli/context-rows.ts'
import { contextNamed, local } from '../src/cli/contexts.ts'
import { readContexts } from '../src/cli/contexts-file.ts'
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
    printContext(cli, await contextRow(cli.env, name))
  })
