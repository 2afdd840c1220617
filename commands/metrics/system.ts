import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metricsSystem = (cli: Cli): Command =>
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
    const columns = ['cpu_usage', 'memory_usage', 'disk_usage', 'active_connections', 'uptime_seconds'].map((name) => ({ name }))
    cli.print(await client.metrics.system(), { columns })
  })
