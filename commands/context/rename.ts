import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { findContextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { findContext, parseContextName } from '../../src/cli/remote/contexts.ts'
import { updateContexts } from '../../src/cli/remote/contexts-file.ts'
import { loadCredentials, saveCredential, withCredentialsLock } from '../../src/cli/remote/credentials.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'

export const contextRename = (cli: Cli): Command =>
  manual('rename <old> <new>', {
    summary: 'Rename a context and keep its session',
    examples: [['context rename dms.example.org prod', '']],
    exits: '0 renamed · 6 no such context · 7 new name taken',
  }).action(async (old: string, given: string) => {
    const name = parseContextName(given)
    await updateContexts(cli.env, async (contexts) => {
      const context = findContext(contexts, old)
      if (contexts.byName.has(name)) throw new Failure('CONFLICT', `context "${name}" exists`)
      // The token moves first: after an interruption the old name only needs a new sign-in.
      await withCredentialsLock(cli.env, async () => {
        await saveCredential(cli.env, name, (await loadCredentials(cli.env))[old])
        await saveCredential(cli.env, old, undefined)
      })
      const byName = new Map([...contexts.byName].map((each) => (each[0] === old ? ([name, context] as const) : each)))
      return { current: contexts.current === old ? name : contexts.current, byName }
    })
    printContext(cli, await findContextRow(cli.env, name), `✓ Renamed context ${old} to ${name}`)
  })
