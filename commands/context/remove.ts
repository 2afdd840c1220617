import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { findContextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { findContext, localContext } from '../../src/cli/remote/contexts.ts'
import { updateContexts } from '../../src/cli/remote/contexts-file.ts'
import { saveCredential, withCredentialsLock } from '../../src/cli/remote/credentials.ts'
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
      const before = await findContextRow(cli.env, name)
      await updateContexts(cli.env, async (contexts) => {
        findContext(contexts, name)
        await withCredentialsLock(cli.env, () => saveCredential(cli.env, name, undefined))
        isCurrent = contexts.current === name
        return {
          current: isCurrent ? localContext : contexts.current,
          byName: new Map([...contexts.byName].filter(([each]) => each !== name)),
        }
      })
      printContext(cli, before, `✓ Removed context ${name}`)
      if (isCurrent) cli.note('the current context is now local (this machine)')
    })
