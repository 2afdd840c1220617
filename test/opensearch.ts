/**
 * Tests the OpenSearch engine on real servers: the search suite, a node that is killed and frozen, and a cluster of three nodes of which two are killed in turn.
 *
 *   npm run test:opensearch [-- --version 3.3.2] [VITEST ARGUMENTS]
 *
 * The version is 2.19.1 by default. Version 3 needs Java 21 or newer: OPENSEARCH_JAVA_HOME names its folder, and the other programs stay as they are.
 * OpenSearch comes from Maven Central and is kept in the cache folder of the user. Without Java and Maven nothing is tested, which is said.
 * With OPENSEARCH_HOME, the program in that folder is tested instead.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, readdirSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../src/config/environment.ts'
import { account, java, openSearchNodes } from './support/servers/opensearch-server.ts'

const run = promisify(execFile)
const say = (line: string) => process.stdout.write(`${line}\n`)

const args = process.argv.slice(2)
const at = args.indexOf('--version')
const [, version = ''] = at < 0 ? ['', '2.19.1'] : args.splice(at, 2)

const given = environment().OPENSEARCH_HOME
const place = given ?? (await mkdtemp(join(tmpdir(), 'dms-opensearch-program-')))
try {
  const program = given ?? (await install(place))
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

/** Returns the folder of the program; null where it cannot be installed. */
async function install(folder: string): Promise<string | null> {
  for (const [program, flag] of [
    ['java', '-version'],
    ['mvn', '-version'],
    ['jar', '--version'],
  ] as const)
    try {
      await run(program, [flag])
    } catch {
      say(`skipped: there is no ${program}`)
      return null
    }
  const cache = join(environment().XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'dms-test', `opensearch-${version}`)
  await mkdir(cache, { recursive: true })
  const archive = await download(cache, `org.opensearch.distribution.integ-test-zip:opensearch:${version}:zip`, `opensearch-${version}.zip`)
  const analysis = await download(cache, `org.opensearch.plugin:analysis-common:${version}:jar`, `analysis-common-${version}.jar`)
  await run('jar', ['xf', archive], { cwd: folder })
  const program = join(folder, `opensearch-${version}`)
  for (const name of readdirSync(join(program, 'bin'))) await run('chmod', ['+x', join(program, 'bin', name)])
  // The small distribution of Maven has no module for analyzers, and the module there has no descriptor.
  const module = join(program, 'modules', 'analysis-common')
  await mkdir(module)
  await run('cp', [analysis, module])
  const { stdout: names } = await run('jar', ['tf', analysis])
  const [name] = /org\/opensearch\/analysis\/common\/CommonAnalysis\w*Plugin(?=\.class)/.exec(names) ?? []
  const other = await readFile(join(program, 'modules', 'transport-netty4', 'plugin-descriptor.properties'), 'utf8')
  const descriptor = {
    description: 'Adds built in analyzers to OpenSearch.',
    version,
    name: 'analysis-common',
    classname: name!.replaceAll('/', '.'),
    'java.version': /^java\.version=(\S+)/m.exec(other)?.[1] ?? '11',
    'opensearch.version': version,
    'extended.plugins': '',
    'has.native.controller': 'false',
  }
  if (java().version < Number(descriptor['java.version'])) {
    say(`skipped: OpenSearch ${version} needs Java ${descriptor['java.version']} or newer. Set OPENSEARCH_JAVA_HOME.`)
    return null
  }
  const lines = Object.entries(descriptor).map(([key, value]) => `${key}=${value}\n`)
  await writeFile(join(module, 'plugin-descriptor.properties'), lines.join(''))
  if (account.uid !== undefined) {
    await run('chown', ['-R', `${account.uid}:${account.gid}`, program])
    chownSync(folder, account.uid, account.gid)
  }
  return program
}

async function download(cache: string, artifact: string, name: string): Promise<string> {
  const file = join(cache, name)
  if (await stat(file).catch(() => null)) return file
  say(`downloading ${name} …`)
  await run('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${cache}`])
  return file
}
