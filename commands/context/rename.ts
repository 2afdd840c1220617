import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { contextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { contextNamed, newName } from '../../src/cli/remote/contexts.ts'
import { changeContexts } from '../../src/cli/remote/contexts-file.ts'
import { keepCredential, readCredentials, whileLocked } from '../../src/cli/remote/credentials.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'

export const contextRename = (cli: Cli): Command =>
  manual('rename <old> <new>', {
    summary: 'Rename a context and keep its session',
    examples: [['context rename dms.example.org prod', '']],
    exits: '0 renamed · 6 no such context · 7 new name taken',
  }).action(async (old: string, given: string) => {
    const name = newName(given)
    await changeContexts(cli.env, async (contexts) => {
      const context = contextNamed(contexts, old)
      if (contexts.known.has(name)) throw new Failure('CONFLICT', `context "${name}" exists`)
      // The token moves first: after an interruption the old name only needs a new sign-in.
      await whileLocked(cli.env, async () => {
        await keepCredential(cli.env, name, (await readCredentials(cli.env))[old])
        await keepCredential(cli.env, old, undefined)
      })
      const known = new Map([...contexts.known].map((each) => (each[0] === old ? ([name, context] as const) : each)))
      return { current: contexts.current === old ? name : contexts.current, known }
    })
    printContext(cli, await contextRow(cli.env, name), `✓ Renamed context ${old} to ${name}`)
  })
