import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCli } from '../../support/cli-transports.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { tokenFor } from '../../support/servers/server.ts'

const fixOf = ({ stderr }: { stderr: string }): string | undefined => /^ +fix: (.*)$/m.exec(stderr)?.[1]

test('6 for a missing label of a remote server: the command of the fix names the server as the command line did', async () => {
  const { app, ada, url, folder } = await startCli('HTTP')
  const token = await tokenFor(app, ada)
  const env = { XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder }
  const missing = ['documents', 'list', '--label', 'missing']
  const byUrl = await runHere([...missing, '--url', url, '--insecure-http'], { env: { ...env, DMS_TOKEN: token } })
  expect([byUrl.code, fixOf(byUrl)]).toEqual([
    6,
    `dms labels create missing --url ${url} --insecure-http, or one of: dms labels list --url ${url} --insecure-http`,
  ])
  expect(await runHere(['login', url, '--name', 'prod', '--no-use', '--with-token'], { env, input: token })).toMatchObject({ code: 0 })
  const byContext = await runHere([...missing, '--context', 'prod'], { env })
  expect([byContext.code, fixOf(byContext)]).toEqual([
    6,
    'dms labels create missing --context prod, or one of: dms labels list --context prod',
  ])
  const byVariable = await runHere(missing, { env: { ...env, DMS_CONTEXT: 'prod' } })
  expect([byVariable.code, fixOf(byVariable)]).toEqual([6, 'dms labels create missing, or one of: dms labels list'])
})

test('6 for a missing label on this machine: the command of the fix has --local, and values that a shell reads as typed', async () => {
  const { env, folder } = await startCli('local')
  const place = join(folder, "ada's files")
  await mkdir(place)
  const config = join(place, 'dms.toml')
  await writeFile(config, '')
  const id = '01234567-89ab-7def-8123-456789abcdef'
  const assigned = await runHere(['labels', 'assign', 'to do; --url now', id, '--local', '-c', config], { env })
  const flags = `-c '${config.replace("'", `'\\''`)}' --local`
  const fix = `dms labels create 'to do; --url now' ${flags}, or one of: dms labels list ${flags}`
  expect([assigned.code, fixOf(assigned)]).toEqual([6, fix])
})

test('6 for a missing label whose name begins with "-": the name follows the flags of the fix, after --', async () => {
  const { env } = await startCli('local')
  const id = '01234567-89ab-7def-8123-456789abcdef'
  const assigned = await runHere(['labels', 'assign', '--local', '--', '-- old', id], { env })
  expect([assigned.code, fixOf(assigned)]).toEqual([6, "dms labels create --local -- '-- old', or one of: dms labels list --local"])
  const created = await runHere(['labels', 'create', '--local', '--', '-- old'], { env })
  expect(created).toMatchObject({ code: 0 })
})

test('4 and 6 of commands that name their server: the fix does not name another', async () => {
  const { url, folder } = await startCli('HTTP')
  const env = { XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder }
  const anonymous = await runHere(['labels', 'list', '--url', url, '--insecure-http'], { env })
  expect([anonymous.code, fixOf(anonymous)]).toEqual([4, `dms login ${url} --insecure-http, or set DMS_TOKEN or DMS_TOKEN_FILE`])
  const unknown = await runHere(['labels', 'list', '--context', 'a b'], { env })
  expect([unknown.code, fixOf(unknown)]).toEqual([6, "dms context list, or: dms login URL --name 'a b'"])
})

test('2 beside a URL with a password: the fix does not repeat the password', async () => {
  const words = ['documents', 'export', '--to', 'all.tar.gz', '--url', 'https://ana:secret@dms.example.org']
  const { code, stderr } = await runHere(words)
  expect([code, fixOf({ stderr })]).toEqual([2, 'dms documents export --to - --url https://dms.example.org | gzip > FILE.tar.gz'])
  expect(stderr).not.toContain('secret')
})
