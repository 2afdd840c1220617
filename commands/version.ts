import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { manual } from '../src/cli/manual.ts'

/** The version in package.json, which is one folder up from the source and two from the build. */
export function versionOfDms(): string {
  const file = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url))
  if (!file) throw new Error('package.json is missing')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

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
