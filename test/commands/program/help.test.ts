import { expect, test } from 'vitest'
import { wrapPage } from '../../../src/cli/output/pager.ts'
import { topics } from '../../../src/cli/output/topics.ts'
import { exits } from '../../../src/cli/runtime/exit.ts'
import { parseWords } from '../../support/processes/command-line.ts'
import { hasProgram, run, runOnTerminal } from '../../support/processes/run.ts'

test('2 with help on standard error for a group without a subcommand', async () => {
  for (const args of [[], ['config']])
    expect(await run(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^Usage: dms (?!.*error:).*Commands:/s) })
})

test('2 as JSON on standard error with --json', async () => {
  const { code, stdout, stderr } = await run(['version', '--json', '--nope'])
  expect({ code, stdout, ...JSON.parse(stderr) }).toMatchObject({
    code: 2,
    stdout: '',
    exit_code: 2,
    error: { code: 'USAGE', message: "unknown option '--nope'" },
  })
})

test('0 with help on standard output for --help and help at any depth', async () => {
  const asked = await run(['config', 'show', '--help'])
  expect(asked).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^Usage: dms config show .*Examples:\n(?: {2}# .+\n)? {2}\$ dms config show/s),
  })
  expect(await run(['help', 'config', 'show'])).toEqual(asked)
})

test('help exit-codes lists all exit codes, help environment all variables', async () => {
  const { stdout } = await run(['help', 'exit-codes'])
  expect(stdout.match(/^ +\d+/gm)?.map(Number)).toEqual(Object.values(exits).map(([code]) => code))
  expect((await run(['help', 'environment'])).stdout).toMatch(/DMS_OUTPUT.*JWT_SECRET, JWT_SECRET_FILE +auth\.jwt_secret/s)
})

test('help topics are wrapped to the terminal, except lines to copy, and unwrapped in a pipe', async () => {
  for (const [name, topic] of Object.entries(topics)) {
    const page = await topic()
    const lines = wrapPage(page, 60).split('\n')
    expect(
      lines.filter((line) => line.length > 60 && !line.startsWith('    ')),
      name,
    ).toEqual([])
    const words = (text: string) => text.trim().split(/\s+/)
    expect(words(lines.join('\n')), name).toEqual(words(page))
    expect(lines).toEqual(expect.arrayContaining(page.split('\n').filter((line) => line.startsWith('    '))))
  }
  expect(await run(['help', 'contexts'], { env: { COLUMNS: '60' } })).toMatchObject({ stdout: await topics.contexts?.() })
  if (!hasProgram('script')) return
  const { stdout } = await runOnTerminal(['help', 'exit-codes'], { env: { COLUMNS: '60' } })
  expect(stdout).toBe(wrapPage((await topics['exit-codes']?.()) ?? '', 60))
})

test('the command lines of help cron parse', async () => {
  const { stdout } = await run(['help', 'cron'])
  const lines = [...stdout.matchAll(/(?<=^ .*)dms (?=[a-z-]+ )([^&;\n]*)/gm)].map(([, words = '']) => words.trim().split(/\s+/))
  expect(lines.length).toBeGreaterThan(7)
  for (const words of lines) expect([words, (await parseWords(words)).problem]).toEqual([words, null])
})
