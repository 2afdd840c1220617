import { type Command, Option } from 'commander'
import { type AddressFlags, addAddressFlags, findSource, readSourcePassword } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'

interface Flags extends AddressFlags {
  type: 'webdav' | 'local_folder' | 's3'
}

export const sourcesTest = (cli: Cli): Command =>
  addAddressFlags(
    manual('test [source]', {
      summary: 'Test the connection to a source',
      examples: [
        ['sources test invoices', ''],
        ['sources test --address https://cloud.example.org/dav/ --username ana --password-prompt', 'before adding it'],
      ],
      exits: '0 all checks passed · 3 a check failed · 6 no such source',
      notes: ['Changes nothing and fetches no file.'],
    }),
  )
    .addOption(new Option('--type <type>', 'type of the source').choices(['webdav', 'local_folder', 's3']).default('webdav'))
    .action(async (given: string | undefined, { type, ...flags }: Flags) => {
      const { address: url, username } = flags
      if ((given === undefined) === (url === undefined)) throw usage('give either a source or --address')
      const password = await readSourcePassword(cli, flags)
      const client = await cli.client()
      const { ok, checks, sample } = url
        ? await client.sources.testAddress({ type, url, username, password })
        : await client.sources.test((await findSource(client, given ?? '')).id)
      if (!ok) cli.exit = 'PARTIAL'
      const columns = [{ name: 'name', title: 'CHECK' }, { name: 'result' }, { name: 'message' }]
      if (cli.options.isJson) cli.print({ ok, checks, sample }, { columns: [] })
      else
        cli.print(
          checks.map((check) => ({ ...check, result: check.ok ? 'ok' : 'failed' })),
          { columns, id: 'name' },
        )
      for (const path of sample) cli.note(`  ${path}`)
    })
