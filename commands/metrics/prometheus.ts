import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metricsPrometheus = (cli: Cli): Command =>
  manual('prometheus', {
    summary: 'Print all metrics in Prometheus text format',
    examples: [
      ['metrics prometheus > /var/lib/node_exporter/dms.prom', "for node_exporter's textfile collector"],
      ['metrics prometheus | grep ^dms_documents', ''],
    ],
    exits: '0 printed · 4 not signed in · 5 not an admin · 69 server unreachable',
    notes: ['-o json and -o jsonl print an object with the field "text". Other formats print the text itself.'],
  }).action(async () => {
    const client = await cli.client()
    const text = await client.metrics.prometheus()
    const { isJson } = cli.options
    if (isJson) cli.print({ text }, { columns: [] })
    else cli.write(text)
  })
