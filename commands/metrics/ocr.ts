import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metricsOcr = (cli: Cli): Command =>
  manual('ocr', {
    summary: 'Show OCR statistics',
    examples: [
      ['metrics ocr', ''],
      ["metrics ocr -o json | jq -r '.daily_stats[] | [.date, .processed] | @tsv'", 'per day'],
    ],
    exits: '0 shown · 4 not signed in · 69 server unreachable',
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
