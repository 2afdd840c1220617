import { group, manual } from '../../src/cli/output/manual.ts'
import { columnsOf, rejectOutputFlags } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metrics = (cli: Cli) => group('metrics', 'Show metrics of the server and of OCR', [system(cli), ocr(cli), prometheus(cli)])

const system = (cli: Cli) =>
  manual('system', {
    summary: 'Show load, connections and uptime of the server',
    examples: [
      ['metrics system', ''],
      ['metrics system -o json | jq .disk_usage', ''],
    ],
    notes: [
      'On the server, connections are the sum over all running servers, and uptime is that of the oldest one. Both are 0 if no server is running.',
    ],
    exits: '0 shown · 4 not signed in · 69 server unreachable',
  }).action(async () => {
    const client = await cli.client()
    const columns = columnsOf(['cpu_usage', 'memory_usage', 'disk_usage', 'active_connections', 'uptime_seconds'])
    cli.print(await client.metrics.system(), { columns })
  })

const ocr = (cli: Cli) =>
  manual('ocr', {
    summary: 'Show OCR statistics',
    examples: [
      ['metrics ocr', ''],
      ["metrics ocr -o json | jq -r '.daily_stats[] | [.date, .processed] | @tsv'", 'per day'],
    ],
    exits: '0 shown · 4 not signed in · 69 server unreachable',
  }).action(async () => {
    const client = await cli.client()
    const names = ['total_processed', 'success_rate', 'average_processing_time', 'languages_used']
    cli.print(await client.metrics.ocr(), { columns: [...columnsOf(names), { name: 'daily_stats', show: 'wide' }] })
  })

const prometheus = (cli: Cli) =>
  manual('prometheus', {
    summary: 'Print all metrics in Prometheus text format',
    examples: [
      ['metrics prometheus > /var/lib/node_exporter/dms.prom', "for node_exporter's textfile collector"],
      ['metrics prometheus | grep ^dms_documents', ''],
    ],
    exits: '0 printed · 4 not signed in · 5 not an admin · 69 server unreachable',
    notes: ['-o json and -o jsonl print an object with the field "text".'],
  }).action(async () => {
    rejectOutputFlags(cli.options, 'the format is that of Prometheus')
    const client = await cli.client()
    const text = await client.metrics.prometheus()
    if (cli.options.isJson) cli.print({ text }, { columns: [] })
    else cli.write(text)
  })
