import { type Command, Option } from 'commander'
import { addSourceFlags, allSourceColumns, findSource, readSourceFields, type SourceFlags } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'

interface Flags extends SourceFlags {
  status?: 'active' | 'disabled'
}

export const sourcesUpdate = (cli: Cli): Command =>
  addSourceFlags(
    manual('update <source>', {
      summary: 'Change a source',
      examples: [
        ['sources update invoices --interval 15m', ''],
        ['sources update invoices --password-stdin < new.pw', ''],
        ['sources update invoices --status disabled', 'stops syncing; active resumes it'],
        ['sources update invoices --pattern ""', 'all files'],
      ],
      exits: '0 changed · 2 invalid value · 6 no such source',
      notes: ['Options that are not given stay unchanged. A new --address on another server removes user name and password.'],
    }),
  )
    .addOption(new Option('--status <status>', 'enable or disable syncing').choices(['active', 'disabled']))
    .action(async (given: string, { status, ...flags }: Flags) => {
      const fields = { ...(await readSourceFields(cli, flags)), status }
      if (Object.values(fields).every((value) => value === undefined)) throw usage('nothing to change', 'see dms sources update --help')
      const client = await cli.client()
      const before = await findSource(client, given)
      const source = await client.sources.update(before.id, fields)
      if (before.has_credentials && !source.has_credentials)
        cli.note('user name and password were removed: the new address is on another server')
      cli.print(source, { columns: allSourceColumns, sentence: `✓ Updated source "${source.name}"` })
    })
