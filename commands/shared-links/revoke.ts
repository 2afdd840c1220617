import type { Command } from 'commander'
import { parseId, readIds } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { runBatch } from '../../src/cli/runtime/run-batch.ts'

export const sharedLinksRevoke = (cli: Cli): Command =>
  manual('revoke <id...>', {
    summary: 'Revoke shared links',
    examples: [
      ['shared-links revoke 0192f0c1-…', ''],
      ['dms links list --state usable --all -o id | dms links revoke -', 'ids from a pipe'],
    ],
    exits: '0 revoked, or were revoked · 3 some could not be revoked · 5 not the owner · 6 no such link',
  })
    .alias('rm')
    .action(async (given: string[]) => {
      const ids = await readIds(given)
      const { sharedLinks } = await cli.client()
      await runBatch(cli, {
        command: 'shared-links revoke',
        phase: 'revoking',
        items: ids,
        keyOf: (id) => id,
        async run(key) {
          const id = parseId(key, 'shared link')
          await sharedLinks.revoke(id)
          return { action: 'revoked', key, id }
        },
      })
    })
