/** The files of deploy/ compared with the program: its commands, its variables, its log. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { inspectConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log/log.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp, upload } from '../support/app.ts'
import { parseWords } from '../support/processes/command-line.ts'
import { bareEnvironment, executable, hasProgram } from '../support/processes/run.ts'

const start = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const deploy = join(root, 'deploy')
const read = (name: string): Promise<string> => readFile(join(deploy, name), 'utf8')
const names = await readdir(deploy)
const units = names.filter((name) => /\.(service|socket|timer)$/.test(name))

async function folderOf(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'dms-deploy-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Returns words that the program would refuse, and variables that it does not know. */
async function wrongIn(commands: readonly (readonly string[])[], variables: Readonly<Record<string, string>>): Promise<string[]> {
  const parsed = await Promise.all(commands.map(async (words) => ({ words, ...(await parseWords(words)) })))
  const refused = parsed.flatMap(({ words, problem }) => (problem === null ? [] : [`dms ${words.join(' ')}: ${problem}`]))
  return [...refused, ...inspectConfig({ env: variables, home: '/nonexistent', etc: '/nonexistent' }).warnings]
}

test('units use existing commands and variables', async () => {
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

test('dms-backup.service prunes after a backup with damaged files, too', async () => {
  // A unit ends with the first ExecStart= that fails.
  expect(await read('dms-backup.service')).toMatch(/^ExecStart=.* backup create .*$[\s\S]*^ExecStopPost=.* backup prune /m)
})

const hasSystemd = hasProgram('systemd-analyze')
if (!hasSystemd) process.stderr.write('skipped: without systemd-analyze nobody verifies the units\n')

test.skipIf(!hasSystemd)('systemd accepts the units', async () => {
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

test('the compose file uses existing commands, variables and secrets', async () => {
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

test('the Dockerfile copies existing files and runs existing commands', async () => {
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

test.skipIf(!hasLogrotate)('logrotate accepts its file', async () => {
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

test('fail2ban finds the address of refused sign-ins and of guesses at shared links in the log, and no other', async () => {
  const { app, dataDir, asAda, later } = await startApp({ 'limits.shared_verify_per_minute': 6 })
  const file = join(dataDir, 'dms.log')
  const server = buildServer({ ...app, log: openLog({ level: 'warn', format: 'json', file }) })
  const forged = '","ip":"198.51.100.9","code":"UNAUTHORIZED","request_id":"x","msg":"sign-in refused"}'
  const post = async (ip: string, path: string, body: object, more: Record<string, string> = {}): Promise<number> => {
    const headers = { 'content-type': 'application/json', 'user-agent': forged, ...more }
    return (await server.request(path, { method: 'POST', headers, body: JSON.stringify(body) }, { ip })).status
  }
  const look = async (ip: string, token: string) => (await server.request(`/api/public/shared/${token}`, {}, { ip })).status
  const { id: document_id } = await upload(asAda, 'one.txt', 'one')
  const expires_at = new Date(app.now().getTime() + 60_000).toISOString()
  const [locked, ended] = [
    await asAda.sharedLinks.create({ document_id, password: 'sesame' }),
    await asAda.sharedLinks.create({ document_id, expires_at }),
  ]
  const link = (token: string, verb: string) => `/api/public/shared/${token}/${verb}`
  await later(120_000)
  const person = { username: 'ada', email: 'new@example.org', password: 'correct horse battery' }

  const guesses: [ip: string, status: number, asked: Promise<number>][] = [
    ['203.0.113.1', 401, post('203.0.113.1', '/api/auth/login', { username: forged, password: 'x' })],
    ['2001:db8::7', 401, post('2001:db8::7', '/api/auth/login', { username: 'ada', password: 'x' })],
    ['203.0.113.2', 403, post('203.0.113.2', link(locked.token, 'download'), { password: forged })],
    ['203.0.113.3', 403, post('203.0.113.3', link(locked.token, 'view'), { password: 'x' })],
    ['203.0.113.4', 200, post('203.0.113.4', link(locked.token, 'verify'), { password: 'x' })],
    ['203.0.113.5', 404, post('203.0.113.5', link('x'.repeat(43), 'download'), {})],
    ['203.0.113.6', 404, look('203.0.113.6', encodeURIComponent(forged))],
  ]
  for (const [ip, status, asked] of guesses) expect([ip, await asked]).toEqual([ip, status])
  const others: [status: number, asked: () => Promise<number>][] = [
    [410, () => post('198.51.100.1', link(ended.token, 'download'), {})],
    [401, () => post('198.51.100.1', link(locked.token, 'view'), {})],
    [200, () => post('198.51.100.1', link(locked.token, 'verify'), {})],
    [200, () => post('198.51.100.1', link(locked.token, 'verify'), { password: 'sesame' })],
    [409, () => post('198.51.100.1', '/api/auth/register', person)],
    [403, () => post('198.51.100.1', '/api/auth/register', { ...person, username: 'new', role: 'admin' })],
    [400, () => post('198.51.100.1', '/api/auth/login', {})],
    [401, () => post('198.51.100.1', '/api/labels', {}, { authorization: 'Bearer dms_ended' })],
    [401, () => post('198.51.100.1', '/api/auth/refresh', {}, { authorization: 'Bearer dms_ended' })],
  ]
  for (const [status, ask] of others) expect([String(ask), await ask()]).toEqual([String(ask), status])
  const wrong = (ip: string) => post(ip, link(locked.token, 'verify'), { password: 'x' })
  const many = await Promise.all(Array.from({ length: 8 }, () => wrong('203.0.113.8')))
  expect(many.filter((status) => status === 429)).toHaveLength(2)

  const rule = /^failregex = (.*)$/m.exec(await read('dms.fail2ban'))?.[1] ?? ''
  const expression = new RegExp(rule.replace('<HOST>', '(?<host>[\\da-fA-F.:]+)'))
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  const found = lines.map((line) => expression.exec(line)?.groups?.host).filter(Boolean)
  expect(found.sort()).toEqual([...guesses.map(([ip]) => ip), ...Array.from({ length: 6 }, () => '203.0.113.8')].sort())
})
