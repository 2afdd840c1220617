/** Installs OpenSearch from Maven Central. Archives are kept in the cache folder of the user. */
import { execFile } from 'node:child_process'
import { chownSync, readdirSync } from 'node:fs'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../../src/config/environment.ts'
import { account, java } from './opensearch-server.ts'

const run = promisify(execFile)

/** Unpacks the program below a folder. Returns its folder; null where it cannot be installed, which `say` is told. */
export async function installOpenSearch(folder: string, version: string, say: (line: string) => void): Promise<string | null> {
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
  const archive = await download(
    cache,
    `org.opensearch.distribution.integ-test-zip:opensearch:${version}:zip`,
    `opensearch-${version}.zip`,
    say,
  )
  const analysis = await download(cache, `org.opensearch.plugin:analysis-common:${version}:jar`, `analysis-common-${version}.jar`, say)
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

async function download(cache: string, artifact: string, name: string, say: (line: string) => void): Promise<string> {
  const file = join(cache, name)
  if (await stat(file).catch(() => null)) return file
  say(`downloading ${name} …`)
  await run('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${cache}`])
  return file
}
