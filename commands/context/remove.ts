import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { contextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { contextNamed, local } from '../../src/cli/remote/contexts.ts'
import { changeContexts } from '../../src/cli/remote/contexts-file.ts'
import { keepCredential, whileLocked } from '../../src/cli/remote/credentials.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const contextRemove = (cli: Cli): Command =>
  manual('remove <name>', {
    summary: 'Remove a context and its token',
    examples: [
      ['context remove prod', ''],
      ['dms logout prod && dms context remove prod', 'also ends the session on the server'],
    ],
    exits: '0 removed · 6 no such context',
  })
    .alias('rm')
    .action(async (name: string) => {
      let isCurrent = false
      const before = await contextRow(cli.env, name)
      await changeContexts(cli.env, async (contexts) => {
        contextNamed(contexts, name)
        await whileLocked(cli.env, () => keepCredential(cli.env, name, undefined))
        isCurrent = contexts.current === name
        return { current: isCurrent ? local : contexts.current, known: new Map([...contexts.known].filter(([each]) => each !== name)) }
      })
      printContext(cli, before, `✓ Removed context ${name}`)
      if (isCurrent) cli.note('the current context is now local (this machine)')
    })
