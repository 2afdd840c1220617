/** The files of deploy/, held against what the program is: its commands, its variables, its log. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { inspectConfig } from '../src/config-load.ts'
import { openLog } from '../src/log.ts'
import { buildServer } from '../src/server/server.ts'
import { startApp } from './support/app.ts'
import { parseWords } from './support/command-line.ts'
import { bareEnvironment, executable, hasProgram } from './support/run.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const deploy = join(root, 'deploy')
const read = (name: string): Promise<string> => readFile(join(deploy, name), 'utf8')
const names = await readdir(deploy)
const units = names.filter((name) => /\.(service|socket|timer)$/.test(name))

async function folderOf(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-deploy-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Words of the program that it would refuse, and variables that it does not know. */
async function wrongIn(commands: readonly (readonly string[])[], variables: Readonly<Record<string, string>>): Promise<string[]> {
  const parsed = await Promise.all(commands.map(async (words) => ({ words, ...(await parseWords(words)) })))
  const refused = parsed.flatMap(({ words, problem }) => (problem === null ? [] : [`dms ${words.join(' ')}: ${problem}`]))
  return [...refused, ...inspectConfig({ env: variables, home: '/nonexistent', etc: '/nonexistent' }).warnings]
}

test('units run commands and set variables that there are', async () => {
  expect(units.length).toBe(7)
  for (const unit of units) {
    const text = await read(unit)
    const commands = [...text.matchAll(/^Exec\w+=\/usr\/bin\/dms (.*)$/gm)].map(([, words = '']) => words.split(' '))
    const variables = [...text.matchAll(/^#?Environment=(.*)$/gm)].flatMap(([, pairs = '']) =>
      pairs.split(' ').map((pair) => pair.split('=')),
    )
    if (unit.endsWith('.service')) expect(commands.length, unit).toBeGreaterThan(0)
    expect(await wrongIn(commands, Object.fromEntries(variables)), unit).toEqual([])
  }
})

const hasSystemd = hasProgram('systemd-analyze')
if (!hasSystemd) process.stderr.write('skipped: without systemd-analyze nobody verifies the units\n')

test.skipIf(!hasSystemd)('systemd has nothing against the units', async () => {
  const folder = await folderOf()
  for (const unit of units) await writeFile(join(folder, unit), (await read(unit)).replaceAll('/usr/bin/dms', executable))
  const files = units.map((unit) => join(folder, unit.replace('@.', '@1.')))
  const { stdout, stderr } = await start('systemd-analyze', ['verify', '--man=no', ...files], { cwd: folder, env: bareEnvironment() })
  expect(stdout + stderr).toBe('')
})

interface Compose {
  services: Record<string, { command?: string[]; environment?: Record<string, string>; secrets?: string[]; image: string; build?: object }>
  secrets: Record<string, unknown>
}

test('the compose file runs commands, sets variables and mounts secrets that there are', async () => {
  const { services, secrets } = parse(await read('compose.yml'), { merge: true }) as Compose
  const own = Object.entries(services).filter(([, { image }]) => image === 'dms')
  expect(own.map(([name]) => name)).toEqual(['migrate', 'serve', 'worker'])
  for (const [name, { command = [], environment = {} }] of own) {
    expect(environment.DATABASE_URL_FILE, name).toBe('/run/secrets/database_url')
    expect(await wrongIn([command], environment), name).toEqual([])
  }
  expect(
    Object.values(services)
      .flatMap(({ secrets: used = [] }) => used)
      .filter((name) => !(name in secrets)),
  ).toEqual([])
})

test('the Dockerfile copies what there is, and runs commands that there are', async () => {
  const lines = (await read('Dockerfile'))
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const known = /^(FROM|WORKDIR|COPY|RUN|ENV|USER|VOLUME|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD) \S/
  expect(lines.filter((line) => !known.test(line))).toEqual([])
  const ignored = (await readFile(join(root, '.dockerignore'), 'utf8')).trim().split('\n')
  const copied = lines.flatMap((line) => (line.startsWith('COPY ') && !line.includes('--from=') ? line.split(/ +/).slice(1, -1) : []))
  expect(copied).toContain('package-lock.json')
  expect(copied.filter((path) => !existsSync(join(root, path)) || ignored.includes(path))).toEqual([])
  // What is packed is what runs.
  const { files } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { files: string[] }
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM '))).join('\n')
  for (const file of files.filter((name) => name !== 'deploy'))
    expect(last).toMatch(new RegExp(`COPY .*\\b${file.replaceAll('.', '\\.')}\\b`))
  const lists = (word: string) =>
    lines.flatMap((line) => (line.includes(`${word} [`) ? [JSON.parse(line.slice(line.indexOf('['))) as string[]] : []))
  const [entry = []] = lists('ENTRYPOINT')
  expect(entry).toEqual(['tini', '--', 'dms'])
  // That of HEALTHCHECK, and the last line.
  const [health = [], standard = []] = lists('CMD')
  expect(health[0]).toBe('dms')
  const variables = lines.flatMap((line) =>
    line.startsWith('ENV ')
      ? line
          .slice(4)
          .split(' ')
          .map((pair) => pair.split('='))
      : [],
  )
  expect(await wrongIn([standard, health.slice(1)], Object.fromEntries(variables))).toEqual([])
})

const hasLogrotate = hasProgram('logrotate')
if (!hasLogrotate) process.stderr.write('skipped: without logrotate nobody reads the file for it\n')

test.skipIf(!hasLogrotate)('logrotate understands its file', async () => {
  const folder = await folderOf()
  const [file, log] = [join(folder, 'dms'), join(folder, 'dms.log')]
  await writeFile(log, 'a line\n')
  const [user, group] = (await start('sh', ['-c', 'echo $(id -un) $(id -gn)'])).stdout.trim().split(' ')
  const rules = (await read('dms.logrotate')).replaceAll('/var/log/dms', folder).replace('dms dms', `${user} ${group}`)
  await writeFile(file, rules, { mode: 0o644 })
  const { stderr } = await start('logrotate', ['-d', '-f', '-s', join(folder, 'state'), file], { env: bareEnvironment() })
  expect(stderr).not.toMatch(/error/i)
  expect(stderr).toContain(`considering log ${log}`)
})

test('fail2ban finds the address of a refused sign-in in the log, and no other', async () => {
  const { app, dataDir } = await startApp()
  const file = join(dataDir, 'dms.log')
  const server = buildServer({ ...app, log: openLog({ level: 'warn', format: 'json', file }) })
  const forged = '","ip":"198.51.100.9","code":"UNAUTHORIZED","request_id":"x","msg":"sign-in refused"}'
  for (const ip of ['203.0.113.7', '2001:db8::7'])
    await server.request(
      '/api/auth/login',
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'user-agent': forged },
        body: JSON.stringify({ username: forged, password: 'x' }),
      },
      { ip },
    )
  const rule = /^failregex = (.*)$/m.exec(await read('dms.fail2ban'))?.[1] ?? ''
  const expression = new RegExp(rule.replace('<HOST>', '(?<host>[\\da-fA-F.:]+)'))
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  expect(lines.map((line) => expression.exec(line)?.groups?.host).filter(Boolean)).toEqual(['203.0.113.7', '2001:db8::7'])
})
