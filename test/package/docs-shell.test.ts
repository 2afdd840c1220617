/** Runs the shell lines of README and docs/ as they stand. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DocsLine, docsLines, pageNames } from '../support/processes/docs-lines.ts'
import { hasProgram } from '../support/processes/run.ts'
import { type DocsMachine, type Done, isWithoutServer, startDocsMachine } from '../support/servers/docs-machine.ts'

const programs = ['bash', 'curl', 'jq', 'openssl', 'tar']
const hasPrograms = programs.every(hasProgram)
if (!hasPrograms) process.stderr.write(`skipped: the lines of the documentation need ${programs.join(', ')}\n`)
const lines = await docsLines()
const serveLine = 'npx dms serve'

/** Lines that cannot run in a test, with the reason. bash parses them. */
const notRun: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^npm ci\b|^npm install |^node .*prune-packages|^apt (install|purge) /, 'installs or removes packages: package/pack.test.ts'],
  [/^npm (test|run)\b|^\.ci\/run/, 'runs tests'],
  [/^systemctl /, 'starts and stops services of the machine: server/systemd.test.ts'],
  [/^(useradd|userdel|install -d -o dms) /, 'needs another account'],
  [/^rm -r \/var/, 'deletes data'],
]
const isRun = ({ text }: DocsLine): boolean =>
  text !== serveLine && !isWithoutServer(text) && !notRun.some(([pattern]) => pattern.test(text))

let machine: DocsMachine
beforeAll(async () => {
  if (hasPrograms) machine = await startDocsMachine(serveLine)
}, 120_000)
afterAll(() => machine?.stop(), 60_000)

test.skipIf(!hasPrograms)('bash can parse the lines that do not run', () => {
  const wrong = lines.filter((line) => !isRun(line) && spawnSync('bash', ['-nc', line.text]).status !== 0)
  expect(wrong.map(({ at }) => at)).toEqual([])
})

test('lines that do not run name scripts and units that exist', async () => {
  for (const [pattern, reason] of notRun) expect(lines.filter(({ text }) => pattern.test(text)).length, reason).toBeGreaterThan(0)
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> }
  const all = lines.map(({ text }) => text).join('\n')
  const named = [...all.matchAll(/\bnpm (?:run )?(?=test|check|format)([\w:]+)/g)].map(([, name = '']) => name)
  const units = [...all.matchAll(/\bdms[\w-]*\.(?:service|timer)\b/g)].map(([name]) => name)
  expect([named.length > 5, units.length > 3]).toEqual([true, true])
  expect([...named.filter((name) => !(name in scripts)), ...units.filter((name) => !existsSync(`deploy/${name}`))]).toEqual([])
})

test.skipIf(!hasPrograms)(
  'every line exits as its page says, and lines for cron print nothing',
  async () => {
    const variables: Record<string, string> = {}
    const outputs = new Map<string, string>()
    const wrong: string[] = []
    expect(lines.filter(isRun).length).toBeGreaterThan(60)
    let page = ''
    for (const line of lines.filter(isRun)) {
      // A page begins on the server's machine.
      if (page !== line.page) await machine.run(['dms context use local -q'])
      page = line.page
      const done = line.isCron ? await machine.runInCron(line) : await runLine(line, variables)
      outputs.set(line.text, done.stdout)
      const isRight = done.code === line.code && (!line.isCron || done.stdout + done.stderr === '')
      if (!isRight) wrong.push(`${line.at}: ${line.text}\n  exit ${done.code}: ${done.stdout}${done.stderr}`)
    }
    expect(wrong).toEqual([])
    const screen = [...outputs.values()].join('\n')
    for (const shown of ['Harbour fees for 2026', '"ocr_queued": true', '<mark>', '"PAYLOAD_TOO_LARGE"']) expect(screen).toContain(shown)
    // The line for cron with a health check runs once.
    expect(machine.reports).toEqual(['/a-uuid/0'])
  },
  600_000,
)

/** Runs a line with the variables of the lines above it. */
async function runLine({ text }: DocsLine, variables: Record<string, string>): Promise<Done> {
  const [, name] = /^([A-Z]+)=\$\(/.exec(text) ?? []
  const script = name ? [text, `printf %s "$${name}"`] : [text]
  const extra: Record<string, string> = {}
  if (/\$DMS_URL\b/.test(text)) extra.DMS_URL = 'https://dms.example.org'
  if (text.startsWith('dms config ')) extra.DMS_CONFIG = '/etc/dms/config.toml'
  if (/^dms restore (?!.*--data-dir)/.test(text)) extra.DMS_DATA_DIR = '/var/lib/dms-empty'
  const done = await machine.run(script, { ...variables, ...extra })
  if (name) variables[name] = done.stdout
  if (name) variables.ID = (await machine.run(['dms documents list --limit 1 -o id'])).stdout.trim()
  return done
}

test.skipIf(!hasPrograms)('commands in sentences that make tokens run on the server', async () => {
  const pages = await Promise.all(pageNames.map((name) => readFile(name, 'utf8')))
  const created = pages.flatMap((text) => [...text.matchAll(/`(dms tokens create [a-z][^`]+)`/g)].map(([, line = '']) => line))
  expect(created.length).toBeGreaterThan(0)
  const user = JSON.stringify([{ username: 'svc-scan', email: 'svc-scan@example.org' }])
  const { code, stdout } = await machine.run([`echo '${user}' | dms users import - --format json -q`, ...created])
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/\S/) })
})
