import { type Command, Option } from 'commander'
import { allSourceColumns, fieldsOf, type SourceFlags, withFields } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure, usage } from '../../src/cli/runtime/exit.ts'

interface Flags extends SourceFlags {
  type: 'webdav' | 'local_folder' | 's3'
  owner?: string
  test?: boolean
}

export const sourcesAdd = (cli: Cli): Command =>
  withFields(
    manual('add', {
      summary: 'Make a source that documents are pulled from.',
      examples: [
        [
          'sources add --name invoices --address https://cloud.example.org/remote.php/dav/files/ana/in/ --username ana --password-file ana.pw',
          '',
        ],
        [
          'sources add --name scans --type local_folder --address /srv/scans --pattern "*.pdf" --interval 15m',
          'below one of sources.local_roots',
        ],
        [
          'sources add --name archive --type s3 --address https://s3.example.org/bucket/in/ --username KEYID --password-file secret',
          'a bucket, or what is below a prefix',
        ],
        ['sources add --name x --address https://… --username u --password-prompt --test', 'only if it can be reached'],
      ],
      exits: '0 made · 1 --test says that it does not work · 2 something is not allowed · 5 not for you',
    }),
  )
    .addOption(new Option('--type <type>').choices(['webdav', 'local_folder', 's3']).default('webdav'))
    .option('--owner <user>', 'whose the documents become (admins)')
    .option('--test', 'try it first, and make it only if all is well')
    .action(async ({ type, owner, test, ...flags }: Flags) => {
      const { name, url, ...fields } = await fieldsOf(cli, flags)
      if (name === undefined) throw usage('which name?', 'pass --name')
      if (url === undefined) throw usage('which address?', 'pass --address')
      const client = await cli.client()
      if (test) {
        const { username, password, recursive } = fields
        const { ok, checks } = await client.sources.testAddress({ type, url, username, password, recursive })
        const failed = checks.find((check) => !check.ok)
        if (!ok) throw new Failure('FAILED', `nothing was made: ${failed?.name}: ${failed?.message}`)
      }
      const source = await client.sources.create({ type, name, url, owner, ...fields })
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Source "${source.name}" made (id ${source.id})` })
    })
