import type { Command } from 'commander'
import { allSourceColumns, findSource } from '../../src/cli/arguments/sources.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const sourcesGet = (cli: Cli): Command =>
  manual('get <source>', {
    summary: 'Show a source',
    examples: [['sources get invoices', 'by name or id']],
    exits: '0 shown · 2 several sources have this name · 6 no such source',
    notes: ['User name and password are never shown.'],
  }).action(async (given: string) => {
    const client = await cli.client()
    const source = await findSource(client, given)
    cli.print(cli.options.printCurl ? await client.sources.get(source.id) : source, { columns: allSourceColumns })
  })
