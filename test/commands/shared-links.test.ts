import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { startCli } from '../support/cli-transports.ts'
import { runHere } from '../support/processes/run-here.ts'

test('create prints only the URL in a pipe; info and download work without an account, with the password, until revoked', async () => {
  const { dms, asAda, folder, url } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a file.txt', 'shared')
  const made = await dms(['links', 'create', id, '--expires', '2h', '--max-views', '3', '--generate-password'])
  const [address = '', password = ''] = made.stdout.trimEnd().split('\t')
  const token = address.split('/').at(-1) ?? ''
  expect([made.code, made.stderr, password.length]).toEqual([0, '', 24])
  const here = `${url}/api/public/shared/${token}`
  // Anonymous: DMS_TOKEN must not be sent to the server of an arbitrary URL.
  const stranger = (args: string[], env: Record<string, string> = {}) => runHere(args, { env: { DMS_TOKEN: 'not.for.you', ...env } })
  const config = { DMS_DATA_DIR: join(folder, 'none') }
  expect(JSON.parse((await stranger(['links', 'info', here, '--json'], config)).stdout)).toMatchObject({
    filename: 'a file.txt',
    requires_password: true,
  })
  expect((await stranger(['links', 'download', here], config)).code).toBe(2)
  expect((await stranger(['links', 'download', here], { ...config, DMS_LINK_PASSWORD: 'wrong' })).code).toBe(5)
  await writeFile(join(folder, 'pw'), `${password}\n`)
  const fetched = await dms(['links', 'download', token, '--password-file', join(folder, 'pw'), '--to', `${folder}/`, '--fields', 'path'])
  expect(fetched).toMatchObject({ code: 0, stdout: `path\t${join(folder, 'a file.txt')}\n` })
  expect(await readFile(join(folder, 'a file.txt'), 'utf8')).toBe('shared')
  expect((await dms(['links', 'download', token, '--password-file', join(folder, 'pw'), '--to', folder])).code).toBe(7)

  const [link] = JSON.parse((await dms(['links', 'list', '--document', id, '--state', 'usable', '--json'])).stdout)
  expect(link).toMatchObject({ document_id: id, view_count: expect.any(Number), max_views: 3 })
  expect((await dms(['links', 'list'])).stdout).not.toContain(token)
  expect((await dms(['links', 'revoke', link.id])).code).toBe(0)
  expect((await dms(['links', 'info', token])).code).toBe(6)
  expect((await dms(['links', 'list', '--state', 'usable'])).stdout).toBe('')
})

test('create --generate-password prints the password in every format', async () => {
  const { dms, asAda } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'shared')
  const create = async (...more: string[]) => (await dms(['links', 'create', id, '--generate-password', ...more])).stdout
  expect(await create('-o', 'csv')).toMatch(/^password,\S{24}$/m)
  for (const format of ['table', 'wide']) expect(await create('-o', format)).toMatch(/^password +\S{24}$/m)
  expect(await create('-o', 'id')).toMatch(/^http\S+\t\S{24}\n$/)
  expect(await create('--fields', 'password')).toMatch(/^password\t\S{24}\n$/)
  expect(JSON.parse(await create('--json')).password).toHaveLength(24)
  expect((await dms(['links', 'create', id, '-o', 'csv'])).stdout).not.toMatch(/^password,/m)
})

test('download: a target that cannot be written costs no view', async () => {
  const { dms, asAda, folder } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'shared')
  const token = (await dms(['links', 'create', id, '--max-views', '1'])).stdout.trim().split('/').at(-1) ?? ''
  const to = join(folder, 'a.txt')
  await writeFile(to, 'mine')
  const fetch = (...args: string[]) => dms(['links', 'download', token, '--to', ...args])
  for (const place of [folder, to]) expect(await fetch(place)).toMatchObject({ code: 7, stderr: expect.stringContaining(`${to} exists`) })
  for (const place of [join(to, 'below/'), join(folder, 'none', 'a.txt')])
    expect(await fetch(place)).toMatchObject({ code: 2, stderr: expect.stringContaining(`--to ${place}`) })
  expect(await fetch(folder, '--clobber')).toMatchObject({ code: 0 })
  expect(await readFile(to, 'utf8')).toBe('shared')
})

test.each([[['links', 'create', 'x']], [['links', 'info', 'https://example.org/other']], [['links', 'info', 'a b']]])(
  '%j is refused before anybody is asked',
  async (args) => {
    expect([2, 6]).toContain((await runHere(args, { env: { DMS_URL: 'http://127.0.0.1:9', DMS_TOKEN: 'x' } })).code)
  },
)
