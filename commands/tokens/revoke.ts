import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

export const tokensRevoke = (cli: Cli): Command =>
  manual('revoke <id...>', {
    summary: 'Revoke API tokens',
    examples: [
      ['tokens revoke 0192f0c1-…', ''],
      ['dms tokens list --user svc-import -o id | dms tokens revoke -', 'all tokens of one user'],
    ],
    exits: '0 revoked · 3 some could not be revoked · 6 no such token',
  })
    .alias('rm')
    .action(async (given: string[]) => {
      const ids = await readIds(given)
      const { tokens } = await cli.client()
      await runBatch(cli, {
        command: 'tokens revoke',
        phase: 'revoking',
        items: ids,
        keyOf: (id) => id,
        async run(key) {
          const id = parseId(key, 'API token')
          await tokens.revoke(id)
          return { action: 'revoked', key, id }
        },
      })
    })
