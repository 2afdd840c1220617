import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metricsOcr = (cli: Cli): Command =>
  manual('ocr', {
    summary: 'Say how reading documents goes: how many, how well, how fast, in which languages.',
    examples: [
      ['metrics ocr', ''],
      ["metrics ocr -o json | jq -r '.daily_stats[] | [.date, .processed] | @tsv'", 'day by day'],
    ],
    exits: '0 said · 4 not signed in · 69 unreachable',
  }).action(async () => {
    const client = await cli.client()
    const columns = [
      { name: 'total_processed' },
      { name: 'success_rate' },
      { name: 'average_processing_time' },
      { name: 'languages_used' },
      { name: 'daily_stats', show: 'wide' as const },
    ]
    cli.print(await client.metrics.ocr(), { columns })
  })
