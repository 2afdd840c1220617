/** Commands on a data folder without an archive, on a schema that is behind, and on a database that is down. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run as runHere } from '../../../commands/program.ts'
import { joinEmbedded } from '../../../src/db/embedded/embedded.ts'
import { openLog } from '../../../src/log/log.ts'
import { startApp, upload } from '../../support/app.ts'
import { folder, otherFileSystem } from '../../support/places.ts'
import { bareEnvironment } from '../../support/processes/run.ts'
import { screen } from '../../support/processes/screen.ts'
import { startServer } from '../../support/servers/server.ts'

const id = '01900000-0000-7000-8000-000000000000'

/** One command for each way to open an archive. */
const reading = [
  'documents list',
  `documents get ${id}`,
  'users list',
  'users token admin',
  'sources sync --due -q',
  'search status',
  'search reindex',
  'check',
  'maintenance expire-links',
  'ocr queue wait',
  'events tail --count 1',
  'audit verify',
  'worker --once -q',
  'worker --once -q --migrate',
  'serve --check --port 0',
  'backup create --to -',
  'backup rehearse',
]

/** These also work without an archive, in a folder of backups. */
const backups = ['backup list', 'backup prune --keep 1 -y']

const migrating = ['migrate status', 'migrate check', 'migrate up -n', 'migrate verify', 'migrate down -n']

async function dms(words: string, env: Record<string, string>) {
  // Without the contexts of whoever runs the tests.
  const defaults = { XDG_CONFIG_HOME: '/nonexistent', DMS_STORAGE_MIN_FREE: '0', DMS_LOG_LEVEL: 'error' }
  const { streams, stdout, stderr } = screen(bareEnvironment({ ...defaults, ...env }), null)
  return { code: await runHere(words.split(' '), streams), stdout: stdout(), stderr: stderr() }
}

/** Exit codes by command. */
async function codesOf(commands: readonly string[], env: Record<string, string>): Promise<Record<string, number>> {
  const codes: Record<string, number> = {}
  for (const words of commands) codes[words] = (await dms(words, env)).code
  return codes
}

const each = (commands: readonly string[], code: number) => Object.fromEntries(commands.map((words) => [words, code]))

test('78 in a data folder without an archive, which is not created; doctor and version report it', async () => {
  const dataDir = join(await folder(), 'mistyped')
  const env = { DMS_DATA_DIR: dataDir, DMS_SERVER_PORT: '1' }
  const commands = [...reading, ...migrating, ...backups]
  expect(await codesOf(commands, env)).toEqual(each(commands, 78))
  expect(await dms('doctor --only database', env)).toMatchObject({ code: 3, stdout: expect.stringContaining(`no dms data in ${dataDir}`) })
  expect((await dms('version', env)).code).toBe(0)
  expect(existsSync(dataDir)).toBe(false)
  const atBackups = { ...env, DMS_BACKUP_PATH: await folder() }
  expect(await codesOf(backups, atBackups)).toEqual(each(backups, 0))
})

test('78 names contexts, other data folders and a running server', async () => {
  const { url } = await startServer()
  const home = await folder()
  const other = join(home, 'dms')
  await mkdir(join(other, 'postgres'), { recursive: true })
  const contexts = join(other, 'contexts.toml')
  await writeFile(contexts, '[contexts.prod]\nurl = "https://dms.example.org"\n')
  await chmod(contexts, 0o600)
  const env = { XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, DMS_SERVER_PORT: new URL(url).port }
  const mistyped = join(home, 'mistyped')
  const { code, stderr } = await dms(`documents list --data-dir ${mistyped}`, env)
  expect(code).toBe(78)
  expect(stderr.split('\n')).toEqual([
    `error: no dms data in ${mistyped}`,
    '         context prod: https://dms.example.org (--context prod)',
    ...(existsSync('/var/lib/dms/postgres') ? ['         data folder: /var/lib/dms (--data-dir /var/lib/dms)'] : []),
    `         data folder: ${other} (--data-dir ${other})`,
    `         running server: ${url} (--url ${url})`,
    `         fix: to create an archive there: dms serve --data-dir ${mistyped}, or pass --init`,
    '',
  ])
  const asJson = JSON.parse((await dms('documents list --json', { ...env, XDG_DATA_HOME: mistyped, DMS_DATA_DIR: mistyped })).stderr)
  expect(asJson).toMatchObject({ error: { code: 'NO_DATA', details: { folder: mistyped } }, exit_code: 78 })
})

test('--init creates an archive; a schema that is behind is 8 until serve, worker --migrate or migrate', async () => {
  const top = await folder()
  await chmod(top, 0o711)
  const env = { DMS_DATA_DIR: join(top, 'data') }
  expect(await dms('documents list --init', env)).toMatchObject({ code: 0, stdout: '' })
  // Commands join it, which saves their start.
  const postgres = await joinEmbedded({ dataDir: env.DMS_DATA_DIR, log: openLog({ level: 'silent', format: 'json' }) })
  onTestFinished(() => postgres.release())
  expect(await codesOf(['documents list', 'documents list --init', 'migrate check'], env)).toEqual({
    'documents list': 0,
    'documents list --init': 0,
    'migrate check': 0,
  })
  expect((await dms('migrate down -y', env)).code).toBe(0)
  const pending = (await dms('migrate up -n -o id', env)).stdout
  expect(pending.trim().split('\n')).toHaveLength(1)
  const blocked = reading.filter((words) => !/--migrate|^backup/.test(words))
  expect(await codesOf(blocked, env)).toEqual(each(blocked, 8))
  expect((await dms('documents list', env)).stderr).toContain('fix: dms migrate')
  expect((await dms('migrate up -n -o id', env)).stdout).toBe(pending)
  expect((await dms('worker --once -q --migrate', env)).code).toBe(0)
  expect(await codesOf(['migrate check', 'documents list'], env)).toEqual({ 'migrate check': 0, 'documents list': 0 })
})

test('78 if the database has documents and the folder of files is missing; neither folder is created', async () => {
  const { databaseUrl, asAda } = await startApp()
  await upload(asAda, 'a.txt', 'a')
  const top = await folder()
  const missing = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: join(top, 'mistyped') }
  const commands = [...reading.filter((words) => words !== 'backup rehearse'), ...backups]
  expect(await codesOf(commands, missing)).toEqual(each(commands, 78))
  const unmounted = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: top, DMS_STORAGE_PATH: join(top, 'unmounted') }
  for (const words of ['documents list', 'serve --port 0'])
    expect(await dms(words, unmounted)).toMatchObject({ code: 78, stderr: expect.stringContaining('unmounted') })
  expect(await readdir(top)).toEqual([])
})

test.skipIf(otherFileSystem === undefined)('78 if storage.tmp_path is on another file system than the document store', async () => {
  const { databaseUrl, app } = await startApp()
  const tmpPath = await folder(otherFileSystem)
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: app.config.data_dir, DMS_STORAGE_TMP_PATH: tmpPath }
  for (const words of ['serve --check --port 0', 'documents list'])
    expect(await dms(words, env)).toMatchObject({ code: 78, stderr: expect.stringContaining(`storage.tmp_path: ${tmpPath} is on another`) })
  const inner = { ...env, DMS_STORAGE_TMP_PATH: join(app.config.data_dir, 'staging') }
  expect(await dms('documents list', inner)).toMatchObject({ code: 0 })
})

test('78 if the data folder cannot be created: a link to a missing folder, a file, and a file system without new folders', async () => {
  const top = await folder()
  await symlink(join(top, 'missing'), join(top, 'link'))
  await writeFile(join(top, 'file'), '')
  for (const dataDir of [join(top, 'link'), join(top, 'file', 'data')])
    expect(await dms('serve --port 0', { DMS_DATA_DIR: dataDir })).toMatchObject({
      code: 78,
      stderr: expect.stringContaining(`the data folder ${dataDir} cannot be created: `),
    })
  expect(await dms('serve --port 0', { DMS_DATA_DIR: '/proc/missing/data' })).toMatchObject({
    code: 78,
    stderr: 'error: DMS_DATA_DIR: /proc/missing/data is in /proc, where no folder can be created\n',
  })
})

test('69 while the database is down, before anything is created', async () => {
  const top = await folder()
  const env = {
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    DMS_DATA_DIR: join(top, 'data'),
    XDG_STATE_HOME: join(top, 'state'),
    DMS_BACKUP_PATH: join(top, 'backups'),
  }
  const target = join(top, 'target')
  const writing = [
    `documents export --to ${target}.tar`,
    `documents download ${id} --to ${target}`,
    `documents watch ${top}`,
    `documents upload ${import.meta.filename}`,
    `backup create --to ${target}`,
    'backup create --format dir',
    `check --rejects ${target}`,
    'serve --port 0 --wait-for-db 0s',
    'migrate',
    'users add --username x --email x@example.org --generate-password',
  ]
  const commands = [...reading.filter((words) => !words.startsWith('serve')), 'serve --check --wait-for-db 0s', ...migrating, ...writing]
  expect(await codesOf(commands, env)).toEqual(each(commands, 69))
  expect(await readdir(top)).toEqual([])
})
