import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { findContextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { findContext, localContext } from '../../src/cli/remote/contexts.ts'
import { loadContexts } from '../../src/cli/remote/contexts-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const contextShow = (cli: Cli): Command =>
  manual('show [name]', {
    summary: 'Show a context (default: the current one)',
    examples: [
      ['context show', ''],
      ['context show prod -o json', ''],
    ],
    exits: '0 shown · 6 no such context',
  }).action(async (given: string | undefined) => {
    const contexts = await loadContexts(cli.env)
    const name = given ?? cli.target.name
    if (name !== localContext) findContext(contexts, name)
    printContext(cli, await findContextRow(cli.env, name))
  })
