import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { manual } from '../src/cli/manual.ts'
import { versionOfDms } from '../src/version.ts'

export const version = (cli: Cli): Command =>
  manual('version', {
    summary: 'Say which dms this is, and what it runs on.',
    examples: [
      ['version', ''],
      ['version -o json | jq -r .version', 'for scripts'],
    ],
  }).action(() => {
    const result = { version: versionOfDms(), node: process.versions.node, platform: `${process.platform}-${process.arch}` }
    const columns = [{ name: 'version' }, { name: 'node' }, { name: 'platform' }]
    cli.print(result, { columns, id: 'version', sentence: `dms ${result.version} (Node ${result.node}, ${result.platform})` })
  })
