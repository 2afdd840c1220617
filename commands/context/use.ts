import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { findContextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { findContext, localContext } from '../../src/cli/remote/contexts.ts'
import { updateContexts } from '../../src/cli/remote/contexts-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const contextUse = (cli: Cli): Command =>
  manual('use <name>', {
    summary: 'Set the current context',
    examples: [
      ['context use prod', ''],
      ['context use local', 'this machine'],
    ],
    notes: ['Commands that run on the server only ignore it.'],
    exits: '0 set · 6 no such context',
  }).action(async (name: string) => {
    await updateContexts(cli.env, (contexts) => {
      if (name !== localContext) findContext(contexts, name)
      return { ...contexts, current: name }
    })
    printContext(
      cli,
      await findContextRow(cli.env, name),
      `✓ The current context is now ${name}${name === localContext ? ' (this machine)' : ''}`,
    )
  })
