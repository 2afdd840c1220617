import type { Command } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const searchSuggest = (cli: Cli): Command =>
  manual('suggest <text...>', {
    summary: 'Suggest completions of a query',
    examples: [
      ['search suggest inv', 'invoice, inventory, …'],
      ['search suggest telecom inv -o id', 'whole queries, one per line'],
    ],
    exits: '0 printed, also without suggestions · 2 bad limit · 4 not signed in · 69 search unreachable',
  })
    .option('--limit <n>', 'maximum number of suggestions (up to 20)', '10')
    .action(async (text: string[], flags: { limit: string }) => {
      const limit = parseCount('--limit', flags.limit, { max: 20 })
      const client = await cli.client()
      cli.print(await client.search.suggest(text.join(' '), limit), {
        columns: [{ name: 'text' }, { name: 'documents', align: 'right' }],
        id: 'text',
      })
    })
