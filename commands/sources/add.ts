import { type Command, Option } from 'commander'
import { addSourceFlags, allSourceColumns, readSourceFields, type SourceFlags } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'

interface Flags extends SourceFlags {
  type: 'webdav' | 'local_folder' | 's3'
  owner?: string
  test?: boolean
}

export const sourcesAdd = (cli: Cli): Command =>
  addSourceFlags(
    manual('add', {
      summary: 'Add a source to sync documents from',
      examples: [
        [
          'sources add --name invoices --address https://cloud.example.org/remote.php/dav/files/ana/in/ --username ana --password-file ana.pw',
          '',
        ],
        [
          'sources add --name scans --type local_folder --address /srv/scans --pattern "*.pdf" --interval 15m',
          'a folder in sources.local_roots',
        ],
        [
          'sources add --name archive --type s3 --address https://s3.example.org/bucket/in/ --username KEYID --password-file secret',
          'an S3 bucket or prefix',
        ],
        ['sources add --name x --address https://… --username u --password-prompt --test', 'test the connection first'],
      ],
      exits: '0 added · 1 --test failed · 2 invalid value · 5 not allowed',
    }),
  )
    .addOption(new Option('--type <type>', 'type of the source').choices(['webdav', 'local_folder', 's3']).default('webdav'))
    .option('--owner <user>', 'owner of the documents (for admins)')
    .option('--test', 'test the source, and add it only if the test passes')
    .action(async ({ type, owner, test, ...flags }: Flags) => {
      const { name, url, ...fields } = await readSourceFields(cli, flags)
      if (name === undefined) throw usage('the source needs a name', 'pass --name NAME')
      if (url === undefined) throw usage('the source needs an address', 'pass --address URL')
      const client = await cli.client()
      if (test) {
        const { username, password, recursive } = fields
        const { ok, checks } = await client.sources.testAddress({ type, url, username, password, recursive })
        const failed = checks.find((check) => !check.ok)
        if (!ok) throw new Failure('FAILED', `source "${name}" was not added: ${failed?.name}: ${failed?.message}`)
      }
      const source = await client.sources.create({ type, name, url, owner, ...fields })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Added source "${source.name}" (id ${source.id})` })
    })
