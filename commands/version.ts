import { manual } from '../src/cli/output/manual.ts'
import type { DatabaseVersion, ServerVersion } from '../src/cli/remote/versions.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { readCommit, readVersion } from '../src/version.ts'

interface Versions {
  readonly client: { readonly version: string; readonly commit: string | null; readonly node: string; readonly platform: string }
  /** Null if commands work on this machine. */
  readonly server: ServerVersion | null
  /** Null if commands work on a remote server, or the database is not running. */
  readonly database: DatabaseVersion | null
}

export const version = (cli: Cli) =>
  manual('version', {
    summary: 'Print the versions of client, server and database',
    examples: [
      ['version', ''],
      ['version --json | jq -r .client.version', 'for a script'],
      ['--context prod version', 'of a remote server'],
    ],
    exits: '0 printed · 2 bad flag · 6 no such context',
    notes: ['The version of a server or database that does not answer within 3 s is null.'],
  }).action(async () => {
    const client = {
      version: readVersion(),
      commit: readCommit(),
      node: process.versions.node,
      platform: `${process.platform}-${process.arch}`,
    }
    const versions = { client, ...(await remoteVersions(cli)) }
    cli.print(versions, {
      columns: [
        { name: 'client', value: () => `dms ${client.version} (Node ${client.node}, ${client.platform})` },
        { name: 'server', value: ({ server }) => server && `${server.version ?? 'no answer'} at ${server.url}` },
        { name: 'database', value: ({ database }) => database && `${database.version}, schema ${database.schema}` },
      ],
      id: 'client',
    })
  })

async function remoteVersions(cli: Cli): Promise<Pick<Versions, 'server' | 'database'>> {
  const { url, caFile } = cli.target
  if (cli.options.printCurl) await (await cli.client()).send('GET', '/api/openapi.json')
  const { fetchDatabaseVersion, fetchServerVersion } = await import('../src/cli/remote/versions.ts')
  if (url !== null) return { server: await fetchServerVersion(url, caFile), database: null }
  const { inspectConfig } = await import('../src/config/load.ts')
  // `config check` reports problems of the configuration.
  const { config, problems } = inspectConfig(cli.configSources())
  await cli.actAsOwner(config)
  return { server: null, database: problems.length > 0 ? null : await fetchDatabaseVersion(config) }
}
