import type { Command } from 'commander'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sourcesRotateKey = (cli: Cli): Command =>
  manual('rotate-key', {
    summary: 'Seal the stored passwords of all sources with a new key. Runs on the server only.',
    examples: [
      ['sources rotate-key', 'makes the key that is kept in the data folder anew'],
      ['sources rotate-key --old-key-file old.key', 'after sources.encryption_key was changed'],
    ],
    exits: '0 done · 1 some password was sealed with yet another key: nothing was changed · 78 not a key',
  })
    .option('--old-key-file <file>', 'the key that was configured before (32 bytes in base64)')
    .action(async ({ oldKeyFile: file }: { oldKeyFile?: string }) => {
      const old = file === undefined ? null : await readSecret(cli.options, 'old-key', { file })
      const app = await cli.app('sources rotate-key')
      const { rotate } = await import('../../src/sources/secrets.ts')
      const sources = await rotate(app, old)
      cli.print(
        { type: 'summary', command: 'sources rotate-key', sources },
        { columns: [{ name: 'sources' }], sentence: `✓ The passwords of ${sources} sources have a new key` },
      )
    })
