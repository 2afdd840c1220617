import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import { contextRow, printContext } from '../../src/cli/remote/context-rows.ts'
import { contextNamed, local } from '../../src/cli/remote/contexts.ts'
import { changeContexts } from '../../src/cli/remote/contexts-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const contextUse = (cli: Cli): Command =>
  manual('use <name>', {
    summary: 'Make a context the one that commands work on from now on.',
    examples: [
      ['context use prod', ''],
      ['context use local', 'this machine'],
    ],
    notes: ['Commands that run on the server only work on this machine all the same.'],
    exits: '0 done · 6 no such context',
  }).action(async (name: string) => {
    await changeContexts(cli.env, (contexts) => {
      if (name !== local) contextNamed(contexts, name)
      return { ...contexts, current: name }
    })
    printContext(cli, await contextRow(cli.env, name), `✓ Commands work on ${name === local ? 'this machine' : name} from now on`)
  })
