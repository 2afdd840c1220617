import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

export const metricsSystem = (cli: Cli): Command =>
  manual('system', {
    summary: 'Say how busy the server is: percentages of its machine, connections, seconds since its start.',
    examples: [
      ['metrics system', ''],
      ['metrics system -o json | jq .disk_usage', ''],
    ],
    notes: [
      'On the server itself connections and uptime are those that its servers note down: all connections, and the uptime of the one that has run longest; 0 where none runs.',
    ],
    exits: '0 said · 4 not signed in · 69 unreachable',
  }).action(async () => {
    const client = await cli.client()
    const columns = ['cpu_usage', 'memory_usage', 'disk_usage', 'active_connections', 'uptime_seconds'].map((name) => ({ name }))
    cli.print(await client.metrics.system(), { columns })
  })
