import type { Command } from 'commander'
import { readSecret } from '../../src/cli/arguments/secret.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sourcesRotateKey = (cli: Cli): Command =>
  manual('rotate-key', {
    summary: 'Encrypt stored source passwords with a new key',
    examples: [
      ['sources rotate-key', 'generates a new key in the data folder'],
      ['sources rotate-key --old-key-file old.key', 'after a change of sources.encryption_key'],
    ],
    exits: '0 rotated · 1 a password was encrypted with another key; nothing was changed · 78 not a key',
    notes: ['Runs on the server only.'],
  })
    .option('--old-key-file <file>', 'previous key (32 bytes in base64)')
    .action(async ({ oldKeyFile: file }: { oldKeyFile?: string }) => {
      const old = file === undefined ? null : await readSecret(cli.options, 'old-key', { file })
      const app = await cli.app('sources rotate-key')
      const { rotateKey } = await import('../../src/sources/credentials.ts')
      const sources = await rotateKey(app, old)
      cli.print(
        { type: 'summary', command: 'sources rotate-key', sources },
        { columns: [{ name: 'sources' }], sentence: `✓ Encrypted the passwords of ${sources} sources with the new key` },
      )
    })
