import { expect, test } from 'vitest'
import { programFor } from '../../../commands/program.ts'
import { upload } from '../../support/app.ts'
import { startCli } from '../../support/cli-transports.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { screen } from '../../support/processes/screen.ts'

test('--color of a label, --url of a source, dates in words, --from and --to', async () => {
  const { dms, envOf, admin, asAda } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'a note about harbours')
  const created = await dms(['labels', 'create', 'red', '--color', '#cc0000', '--color=never', '--fields', 'color'])
  expect(created).toMatchObject({ code: 0, stdout: 'color\t#cc0000\n' })
  expect((await dms(['labels', 'update', 'red', '--color=#00cc00', '--fields', 'color'])).stdout).toBe('color\t#00cc00\n')

  const env = await envOf(admin)
  const address = 'http://127.0.0.1:9/dav/'
  const added = await dms(['sources', 'add', '--name', 's', '--url', address, '--username', 'u', '--fields', 'url'], { env })
  expect(added).toMatchObject({ code: 0, stdout: `url\t${address}\n` })
  const moved = await dms(['sources', 'update', 's', '--url', `${address}x/`, '--fields', 'url'], { env })
  expect(moved).toMatchObject({ code: 0, stdout: `url\t${address}x/\n` })
  expect(await dms(['sources', 'test', '--url', address], { env })).toMatchObject({
    code: 3,
    stdout: expect.stringContaining('connection'),
  })
  expect((await dms(['sources', 'test', 's', '--url', address], { env })).code).not.toBe(3)

  const found = async (...args: string[]) => (await dms(['documents', 'list', '-o', 'id', ...args])).stdout
  expect(await found('--since', 'yesterday', '--until', 'today')).toBe(`${id}\n`)
  expect(await found('--from', '1h', '--to', 'tomorrow')).toBe(`${id}\n`)
  expect(await found('--until', 'yesterday')).toBe('')
  expect((await dms(['audit', 'list', '--since', 'tomorrow'], { env })).stdout).toBe('')
  const link = await dms(['shared-links', 'create', id, '--expires', 'tomorrow', '--json'])
  expect(Date.parse(JSON.parse(link.stdout).expires_at)).toBeGreaterThan(Date.now())
})

test.each([
  ['documents list --since soon', '--since soon: not a date, a time or a duration'],
  ['documents list --since 2026', '--since 2026: not a date, a time or a duration'],
  ['shared-links create 01900000-0000-7000-8000-0123456789ab --expires 7', '--expires 7: not a date, a time or a duration'],
  ['sources rollback invoices --before 20261120 -y', '--before 20261120: not a date, a time or a duration'],
  ['search query x --to never', '--to never: not a date, a time or a duration'],
  ['documents list --since 1d --from 2026-01-01', "option '--from <when>' cannot be used with option '--since <when>'"],
  ['labels list --color #cc0000', "unknown option '--colour'"],
  ['documents list --since 2026-11-20T08:00', '--since 2026-11-20T08:00: a time needs Z or an offset'],
  ['search reindex --since 2026-11-20T08:00:00', '--since 2026-11-20T08:00:00: a time needs Z or an offset'],
  ['tokens create x --scope read --expires 2027-01-01T00:00:00.000', 'a time needs Z or an offset'],
  ['tokens create x --scope read --expires 2027-02-30', '--expires 2027-02-30: not a date, a time or a duration'],
  ['users import x.csv --lock-timeout 1s --url http://127.0.0.1:9', '--lock-timeout works on the server only'],
  ['login http://127.0.0.1:9 --url http://127.0.0.1:9', 'the server is given twice'],
  ['login', 'no server given'],
])('2 for dms %s', async (line, problem) => {
  expect(await runHere(line.split(' '))).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(problem) })
})

test.each(['2026-11-20', '2026-11-20T08:00Z', '2026-11-20t08:00:00z', '2026-11-20T08:00:00.123+05:30', 'now', '7d'])(
  '--since accepts %s',
  async (when) => {
    const line = ['documents', 'list', '--since', when, '--print-curl', '--url', 'http://127.0.0.1:9']
    expect(await runHere(line)).toMatchObject({ code: 0, stdout: expect.stringContaining('date_from=20') })
  },
)

test('unset secrets are null, and empty in a table', async () => {
  const env = { DMS_DATA_DIR: '/nonexistent' }
  expect(JSON.parse((await runHere(['config', 'show', 'auth.jwt_secret', '--json'], { env })).stdout)).toMatchObject([{ value: null }])
  expect(JSON.parse((await runHere(['config', 'show', 'oidc.client_secret', '--json', '--reveal'])).stdout)).toMatchObject([
    { value: null },
  ])
  expect((await runHere(['config', 'show', 'oidc.client_secret'])).stdout).toBe('oidc.client_secret\t\n')
})

test('summaries have error and failed, also of sources', async () => {
  const { dms, envOf, admin } = await startCli('local')
  const env = await envOf(admin)
  const sync = JSON.parse((await dms(['sources', 'sync', '--due', '--json'], { env })).stdout)
  expect(sync).toMatchObject({ type: 'summary', failed: 0, error: null })
  const reindex = JSON.parse((await dms(['search', 'reindex', '--json'], { env: { ...env, DMS_AS: '' } })).stdout)
  expect(reindex).toMatchObject({ type: 'summary', failed: 0, error: null, exit_code: 0 })
})

test('help names dms docs man; aliases of flags are hidden', async () => {
  expect((await runHere(['--help'])).stdout).toContain('Manual pages: dms docs man --dir')
  const { stdout } = await runHere(['documents', 'list', '--help'])
  expect(stdout).toContain('--until <when>')
  expect(stdout).not.toMatch(/--from|--to\b/)
})

test.each([
  ['-qc /nonexistent/config.toml migrate', 78, /^error: \/nonexistent\/config.toml: no such file/],
  ['-vo json labels create red --color #cc0000 --url http://127.0.0.1:9 --print-curl', 0, /#cc0000/],
])('the value of bundled short flags is not the command: %s', async (line, code, output) => {
  const ended = await runHere(line.split(' '))
  expect([ended.code, ended.stderr + ended.stdout]).toEqual([code, expect.stringMatching(output)])
})

test('2 if a command runs that was not loaded', async () => {
  const { program } = await programFor(screen({}, null).streams, ['version'])
  const failure = await program.parseAsync(['migrate'], { from: 'user' }).catch((error) => error)
  expect(failure).toMatchObject({ exit: 'USAGE', message: 'cannot read the words before "migrate"' })
})
