/**
 * Tests the OpenSearch engine on real servers: the search suite, a node that is killed and frozen, a cluster of three nodes of which
 * two are killed in turn, and a fleet of servers and workers on S3.
 *
 *   npm run test:opensearch [-- --version 3.3.2] [VITEST ARGUMENTS]
 *
 * The version is 2.19.1 by default. Version 3 needs Java 21 or newer: OPENSEARCH_JAVA_HOME names its folder, and the other programs stay as they are.
 * OpenSearch comes from Maven Central and is kept in the cache folder of the user. Without Java and Maven nothing is tested, which is said.
 * With OPENSEARCH_HOME, the program in that folder is tested instead.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment } from '../src/config/environment.ts'
import { installOpenSearch } from './support/servers/opensearch-program.ts'
import { openSearchNodes } from './support/servers/opensearch-server.ts'

const print = (line: string) => process.stdout.write(`${line}\n`)

const args = process.argv.slice(2)
const at = args.indexOf('--version')
const [, version = ''] = at < 0 ? ['', '2.19.1'] : args.splice(at, 2)

const given = environment().OPENSEARCH_HOME
const place = given ?? (await mkdtemp(join(tmpdir(), 'dms-opensearch-program-')))
try {
  const program = given ?? (await installOpenSearch(place, version, print))
  if (program !== null) process.exitCode = await test(program)
} finally {
  if (!given) await rm(place, { recursive: true, force: true })
}

async function test(program: string): Promise<number> {
  const [node] = await openSearchNodes(1, program)
  try {
    await node!.start()
    const env = { ...process.env, OPENSEARCH_URL: node!.url, OPENSEARCH_HOME: program }
    const vitest = spawn('npx', ['vitest', 'run', '--no-file-parallelism', 'test/search/opensearch', ...args], { env, stdio: 'inherit' })
    const [code] = (await once(vitest, 'exit')) as [number | null]
    return code ?? 1
  } finally {
    await node!.remove()
  }
}
